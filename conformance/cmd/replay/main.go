// Command replay checks a timeline of scheduling decisions against the stock
// scheduler's framework: it carries the same cluster from line to line and asks
// at every decision what kube-scheduler would have done.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `usage: replay [-show N] [FILE...]

Checks every decision of a timeline, as "plimsoll simulate --timeline" writes
it, against the default profile of stock kube-scheduler. Each FILE is a timeline
of its own; without one, or for "-", standard input is read. Gzip is recognised
by content.

A timeline has one JSON object a line, with "at", the time in seconds (a number
that never falls), and exactly one of:

  "node": {v1.Node}      a node came, or changed
  "nodeGone": "name"     a node left; its pods are gone only when podGone says so
  "pod": {v1.Pod}        a pod arrived, with metadata.name and metadata.uid; one
                         with spec.nodeName runs there from now on, unchecked
  "podGone": "uid"       a pod ended or was removed, placed or not
  "object": {...}        a Namespace, Service, ReplicaSet, StatefulSet,
                         ReplicationController or PodDisruptionBudget came or
                         changed; it says its apiVersion and kind
  "place": {"uid": ..., "node": ..., "feasible": N, "ties": K}
                         the pod goes to the node; N nodes were feasible, and K
                         of them shared the highest total
  "wait": {"uid": ...}   the pod was tried and no node was feasible
  "preempt": {"uid": ..., "node": ..., "victims": [uid, ...]}
                         no node was feasible, so the pod waits for the node, as
                         its nominated pod; the victims are being deleted from
                         now on and leave by podGone lines of their own

At each decision the stock plugins see the state that the lines before it make,
and every node. A placement agrees when N is right, the node has the highest
total, and K nodes have it. A nominated pod that fits its node gets it: N and K
are 1. A wait agrees when no node is feasible and no preemption would help. A
preemption agrees when kube-scheduler could choose that node and those victims,
given all candidates and whatever the last tie gives. Whatever the verdict, the
replay goes on from the decision that the timeline states. A placed pod starts
at "at". Claims for volumes and devices are not replayed.

Prints the first differences in full and, last, "N placements agree, M differ",
where M counts waits and preemptions too. Exit status 1 if any differ, 2 if a
timeline cannot be read.

`

var errDiffers = errors.New("decisions differ")

func main() {
	switch err := run(os.Args[1:], os.Stdin, os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errDiffers):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(2)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	show := flags.Int("show", 5, "differences to print in full")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	paths := flags.Args()
	if len(paths) == 0 {
		paths = []string{"-"}
	}
	report := &report{out: out, show: *show}
	for _, path := range paths {
		if err := replayFile(path, in, report); err != nil {
			return err
		}
	}
	return report.close()
}

func replayFile(path string, in io.Reader, report *report) error {
	name := "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		in, name = file, path
	}
	replay, err := newReplay(name, report)
	if err != nil {
		return err
	}
	defer replay.close()
	return readTimeline(in, name, replay.apply)
}
