package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	v1 "k8s.io/api/core/v1"
)

// event is one line of a timeline; exactly one field beside At is set.
type event struct {
	At       *float64
	Node     *v1.Node
	NodeGone *string
	Pod      *v1.Pod
	PodGone  *string
	Object   json.RawMessage
	Place    *placement
	Wait     *waiting
	Preempt  *preemption
}

type placement struct {
	UID      string `json:"uid"`
	Node     string `json:"node"`
	Feasible *int   `json:"feasible"`
	Ties     *int   `json:"ties"`
}

type waiting struct {
	UID string `json:"uid"`
}

type preemption struct {
	UID     string   `json:"uid"`
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
}

// parseEvent refuses fields that the format does not have, except inside
// objects of the API, which may be newer than ours.
func parseEvent(line []byte) (*event, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, err
	}
	e := &event{}
	kinds := 0
	for name, raw := range fields {
		var err error
		switch name {
		case "at":
			err = json.Unmarshal(raw, &e.At)
			kinds--
		case "node":
			err = json.Unmarshal(raw, &e.Node)
		case "nodeGone":
			err = json.Unmarshal(raw, &e.NodeGone)
		case "pod":
			err = json.Unmarshal(raw, &e.Pod)
		case "podGone":
			err = json.Unmarshal(raw, &e.PodGone)
		case "object":
			e.Object = raw
		case "place":
			err = strictly(raw, &e.Place)
		case "wait":
			err = strictly(raw, &e.Wait)
		case "preempt":
			err = strictly(raw, &e.Preempt)
		default:
			err = errors.New("no such event")
		}
		if err == nil && bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			err = errors.New("is null")
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		kinds++
	}
	if e.At == nil {
		return nil, errors.New(`no "at"`)
	}
	if kinds != 1 {
		return nil, fmt.Errorf("%d events; a line has one", kinds)
	}
	if p := e.Place; p != nil && (p.Feasible == nil || p.Ties == nil) {
		return nil, errors.New(`"place": "feasible" and "ties" are required`)
	}
	return e, nil
}

func strictly(raw json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// readTimeline calls visit for every event, with the number of its line.
func readTimeline(in io.Reader, name string, visit func(line int, e *event) error) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	if magic, _ := lines.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(lines)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer unpacked.Close()
		lines = bufio.NewReaderSize(unpacked, 1<<20)
	}
	last := math.Inf(-1)
	for number := 1; ; number++ {
		line, readErr := lines.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return fmt.Errorf("%s:%d: %w", name, number, readErr)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			e, err := parseEvent(line)
			if err == nil && *e.At < last {
				err = fmt.Errorf("at %v comes after at %v; a timeline never goes back", *e.At, last)
			}
			if err == nil {
				last = *e.At
				err = visit(number, e)
			}
			if err != nil {
				return fmt.Errorf("%s:%d: %w", name, number, err)
			}
		}
		if readErr != nil {
			return nil
		}
	}
}
