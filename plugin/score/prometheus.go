package score

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// metric is one of the six things known of a node.
type metric int

const (
	cpuPercent metric = iota
	memoryAvailableGB
	diskUsedPercent
	networkReceive
	tcpEstablished
	pods
	metricCount
)

// A vector with a sample for each of 50,000 nodes has some 10 MB.
const maxVector = 32 << 20

// readings are what Prometheus said last, each metric with its time: a query may fail alone.
type readings [metricCount]reading

// reading is one metric of all nodes, by what its label calls them; no nodes where it is not known.
type reading struct {
	at     time.Time
	values map[string]float64
}

// poller asks Prometheus in the background, so that no scheduling cycle waits for it.
type poller struct {
	http       *http.Client
	url        string
	queries    [metricCount]string
	label      string
	interval   time.Duration
	staleAfter time.Duration
	clock      clock.WithTicker
	last       atomic.Pointer[readings]
}

func newPoller(args *Prometheus, transport http.RoundTripper, clock clock.WithTicker) *poller {
	q := args.Queries
	p := &poller{
		http:       &http.Client{Transport: transport},
		url:        strings.TrimSuffix(args.Address, "/") + "/api/v1/query",
		queries:    [metricCount]string{q.CPUPercent, q.MemoryAvailableGB, q.DiskUsedPercent, q.NetworkReceive, q.TCPEstablished, q.Pods},
		label:      args.NodeLabel,
		interval:   args.Interval.Duration,
		staleAfter: args.StaleAfter.Duration,
		clock:      clock,
	}
	p.last.Store(&readings{})
	return p
}

// run polls until the context ends.
func (p *poller) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	ticker := p.clock.NewTicker(p.interval)
	defer ticker.Stop()
	failing := false
	for {
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		// Once when it begins and once when it ends, not every few seconds.
		if err != nil && !failing {
			logger.Error(err, "Prometheus does not say what nodes are like; Plimsoll has only its server to go by", "url", p.url)
		} else if err == nil && failing {
			logger.Info("Prometheus answers again", "url", p.url)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// poll asks every query once. What fails leaves the last reading, until that is stale.
func (p *poller) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.interval)
	defer cancel()
	next := *p.last.Load()
	var failed []error
	for metric, query := range p.queries {
		values, err := p.query(ctx, query)
		if err != nil {
			pollsTotal.WithLabelValues("error").Inc()
			failed = append(failed, fmt.Errorf("query %q: %w", query, err))
			continue
		}
		pollsTotal.WithLabelValues("success").Inc()
		next[metric] = reading{at: p.clock.Now(), values: values}
	}
	p.last.Store(&next)
	return errors.Join(failed...)
}

// fresh gives the readings that still count.
func (p *poller) fresh() *readings {
	readings := *p.last.Load()
	for metric := range readings {
		if p.clock.Since(readings[metric].at) > p.staleAfter {
			readings[metric] = reading{}
		}
	}
	return &readings
}

// vector is what /api/v1/query answers.
type vector struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string `json:"metric"`
			Value  [2]any            `json:"value"`
		} `json:"result"`
	} `json:"data"`
}

func (p *poller) query(ctx context.Context, query string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"?"+url.Values{"query": {query}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := p.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var vector vector
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxVector)).Decode(&vector); err != nil {
		return nil, fmt.Errorf("%s: %w", answer.Status, err)
	}
	if vector.Status != "success" {
		return nil, fmt.Errorf("%s: %s", answer.Status, vector.Error)
	}
	if vector.Data.ResultType != "vector" {
		return nil, fmt.Errorf("the result is a %s, not a vector with a sample for each node", vector.Data.ResultType)
	}
	values := make(map[string]float64, len(vector.Data.Result))
	for _, sample := range vector.Data.Result {
		name := p.node(sample.Metric)
		text, _ := sample.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if name == "" || err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		// Several of one node, as of a node with two file systems: the order of results must not decide.
		if other, ok := values[name]; !ok || value > other {
			values[name] = value
		}
	}
	return values, nil
}

// node gives the node that labels are about.
func (p *poller) node(labels map[string]string) string {
	name := labels[p.label]
	if p.label == "" {
		name = labels["node"]
		if name == "" {
			name = labels["instance"]
		}
	}
	if host, _, err := net.SplitHostPort(name); err == nil {
		return host
	}
	return name
}
