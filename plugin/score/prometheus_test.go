package score

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// fakePrometheus answers each query with the samples a test gives it: `label=name value`, one a line.
type fakePrometheus struct {
	*httptest.Server
	mu      sync.Mutex
	samples map[string]string
	broken  map[string]string
	asked   int
}

func newFakePrometheus(t *testing.T) *fakePrometheus {
	t.Helper()
	f := &fakePrometheus{samples: map[string]string{}, broken: map[string]string{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakePrometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	query := r.URL.Query().Get("query")
	if body, ok := f.broken[query]; ok {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, body)
		return
	}
	var results []string
	for line := range strings.Lines(f.samples[query]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		label, node, _ := strings.Cut(name, "=")
		results = append(results, fmt.Sprintf(`{"metric":{"%s":"%s","job":"x"},"value":[1767225600.5,"%s"]}`, label, node, value))
	}
	if r.URL.Path != "/api/v1/query" {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(results, ","))
}

func (f *fakePrometheus) says(query, samples string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples[query] = samples
	delete(f.broken, query)
}

func (f *fakePrometheus) breaks(query, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken[query] = body
}

func (f *fakePrometheus) args() *Prometheus {
	args := &Args{Prometheus: &Prometheus{Address: f.URL}}
	args.setDefaults()
	args.Prometheus.Queries = Queries{CPUPercent: "cpu", MemoryAvailableGB: "memory", DiskUsedPercent: "disk", NetworkReceive: "network", TCPEstablished: "tcp", Pods: "pods"}
	return args.Prometheus
}

// withPrometheus is a plugin whose server is not there.
func withPrometheus(t *testing.T, f *fakePrometheus, fallback Fallback, nodes []*v1.Node) *bench {
	t.Helper()
	server := newServer(t)
	server.Close()
	args := argsFor(server.URL)
	args.Fallback = fallback
	args.Prometheus = f.args()
	return newBench(t, args, nodes)
}

func (b *bench) poll(t *testing.T) error {
	t.Helper()
	return b.plugin.prometheus.poll(context.Background())
}

func TestLoadDecidesWhereTheServerIsAway(t *testing.T) {
	prometheus := newFakePrometheus(t)
	// Of 100 %, 10 GB and 100 pods: loaded by a tenth, by half, and by nine tenths.
	prometheus.says("cpu", "instance=node-1:9100 10\ninstance=node-2:9100 50\ninstance=node-3:9100 90")
	prometheus.says("memory", "instance=node-1:9100 9\ninstance=node-2:9100 5\ninstance=node-3:9100 1")
	prometheus.says("pods", "node=node-1 10\nnode=node-2 50\nnode=node-3 90")
	for fallback, want := range map[Fallback][]int64{
		// Shares of the best: 0.9, 0.5 and 0.1 are 100, 55 and 11 of 100.
		LeastLoaded: {100 * weight, 55 * weight, 11 * weight},
		MostLoaded:  {11 * weight, 55 * weight, 100 * weight},
	} {
		t.Run(string(fallback), func(t *testing.T) {
			bench := withPrometheus(t, prometheus, fallback, makeNodes(3))
			for _, query := range []string{"disk", "network", "tcp"} {
				prometheus.breaks(query, `{"status":"error","error":"not here"}`)
			}
			if err := bench.poll(t); err == nil || !strings.Contains(err.Error(), `query "tcp": 422 Unprocessable Entity: not here`) {
				t.Errorf("the error %v does not name what failed", err)
			}
			byLoad := counted(t, scoresTotal, sourcePrometheus)
			if got := bench.schedule(t, makePod("web")); !slices.Equal(got, want) {
				t.Errorf("scores %v, want %v", got, want)
			}
			if byLoad() != 1 {
				t.Errorf("%d pods counted as scored by load, want 1", byLoad())
			}
		})
	}
}

func TestTheServersScoresComeBeforeLoad(t *testing.T) {
	prometheus, server := newFakePrometheus(t), newServer(t)
	prometheus.says("cpu", "node=node-1 1\nnode=node-2 50\nnode=node-3 90")
	args := argsFor(server.URL)
	args.Prometheus = prometheus.args()
	bench := newBench(t, args, makeNodes(3))
	if err := bench.poll(t); err != nil {
		t.Fatal(err)
	}
	if got := bench.schedule(t, makePod("web")); got[2] != 100*weight {
		t.Errorf("scores %v, want the server's, for which node-3 is best", got)
	}
	server.answers(http.StatusOK, `{"items":[{"scores":[null,null,null]}]}`)
	if got := bench.schedule(t, makePod("web")); got[0] != 100*weight {
		t.Errorf("scores %v, want those by load where the server knows no node", got)
	}
	server.answersBy(nil)
	if got := bench.schedule(t, makePod("web")); got[2] != 100*weight {
		t.Errorf("scores %v, want the server's again", got)
	}
}

func TestNoCycleWaitsForPrometheus(t *testing.T) {
	prometheus := newFakePrometheus(t)
	bench := withPrometheus(t, prometheus, LeastLoaded, makeNodes(3))
	for range 10 {
		bench.schedule(t, makePod("web"))
	}
	if prometheus.asked != 0 {
		t.Errorf("%d queries were asked in scheduling cycles", prometheus.asked)
	}
}

func TestStaleLoadDecidesNothing(t *testing.T) {
	prometheus := newFakePrometheus(t)
	prometheus.says("cpu", "node=node-1 10\nnode=node-2 50\nnode=node-3 90")
	bench := withPrometheus(t, prometheus, LeastLoaded, makeNodes(3))
	if err := bench.poll(t); err != nil {
		t.Fatal(err)
	}
	for _, query := range bench.plugin.prometheus.queries {
		prometheus.breaks(query, "no JSON")
	}
	bench.clock.Step(time.Minute)
	if err := bench.poll(t); err == nil {
		t.Fatal("answers that are no JSON are no error")
	}
	if got := bench.schedule(t, makePod("web")); allEqual(got) {
		t.Errorf("scores %v: what is a minute old must still count", got)
	}
	bench.clock.Step(1)
	neutral := counted(t, scoresTotal, sourceNeutral)
	if got := bench.schedule(t, makePod("web")); !allEqual(got) || neutral() != 1 {
		t.Errorf("scores %v: what is older than a minute must not count", got)
	}
	prometheus.says("cpu", "node=node-1 90\nnode=node-2 50\nnode=node-3 10")
	_ = bench.poll(t)
	if got := bench.schedule(t, makePod("web")); got[2] != 100*weight {
		t.Errorf("scores %v: what Prometheus says again must count", got)
	}
}

func TestWhatIsKnownOfNodes(t *testing.T) {
	cases := map[string]struct {
		says map[string]string
		want []int64
	}{
		"an unknown node is last":             {map[string]string{"cpu": "node=node-1 60\nnode=node-3 20"}, []int64{50, 0, 100}},
		"a node without pods has none":        {map[string]string{"pods": "node=node-1 50\nnode=node-3 75"}, []int64{50, 100, 25}},
		"pods alone say nothing of new nodes": {map[string]string{"cpu": "node=node-1 60\nnode=node-3 20", "pods": "node=node-1 60\nnode=node-3 20"}, []int64{50, 0, 100}},
		"no number is no sample":              {map[string]string{"cpu": "node=node-1 NaN\nnode=node-2 +Inf\nnode=node-3 20"}, []int64{0, 0, 100}},
		"the larger of two samples":           {map[string]string{"cpu": "node=node-1 20\nnode=node-1 60\nnode=node-2 60\nnode=node-2 20\nnode=node-3 20"}, []int64{50, 50, 100}},
		"more than all is all":                {map[string]string{"cpu": "node=node-1 150\nnode=node-2 -5\nnode=node-3 0"}, []int64{0, 100, 100}},
		"by address, with a port":             {map[string]string{"cpu": "instance=10.0.0.1:9100 60\ninstance=[fd00::2]:9100 20\ninstance=10.0.0.3:9100 100"}, []int64{50, 100, 0}},
		"network beside the busiest":          {map[string]string{"network": "node=node-1 500\nnode=node-2 1000\nnode=node-3 0"}, []int64{50, 0, 100}},
		"others than these nodes":             {map[string]string{"cpu": "node=other 60"}, []int64{0, 0, 0}},
		"nothing at all":                      {map[string]string{}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			prometheus := newFakePrometheus(t)
			nodes := makeNodes(3)
			nodes[0].Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "one"}, {Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
			nodes[1].Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "fd00::2"}}
			nodes[2].Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.3"}}
			bench := withPrometheus(t, prometheus, LeastLoaded, nodes)
			// What is not said is not known: a query that is answered without any sample would be, for pods.
			for _, query := range bench.plugin.prometheus.queries {
				prometheus.breaks(query, "{}")
			}
			for query, samples := range c.says {
				prometheus.says(query, samples)
			}
			_ = bench.poll(t)
			want := c.want
			if want == nil {
				want = []int64{0, 0, 0}
			}
			got := bench.schedule(t, makePod("web"))
			for i := range want {
				if got[i] != want[i]*weight {
					t.Fatalf("scores %v, want %v times %d", got, want, weight)
				}
			}
		})
	}
}

func TestDiskNetworkAndConnectionsCountLess(t *testing.T) {
	prometheus := newFakePrometheus(t)
	// node-1 is the least busy by CPU, though the worst by everything beside it.
	prometheus.says("cpu", "node=node-1 40\nnode=node-2 80\nnode=node-3 80")
	prometheus.says("disk", "node=node-1 90\nnode=node-2 10\nnode=node-3 20")
	prometheus.says("network", "node=node-1 900\nnode=node-2 10\nnode=node-3 20")
	prometheus.says("tcp", "node=node-1 90\nnode=node-2 10\nnode=node-3 20")
	bench := withPrometheus(t, prometheus, LeastLoaded, makeNodes(3))
	prometheus.breaks("pods", "{}")
	prometheus.breaks("memory", "{}")
	_ = bench.poll(t)
	got := bench.schedule(t, makePod("web"))
	if got[0] <= got[1] || got[1] <= got[2] {
		t.Errorf("scores %v, want node-1 before node-2 before node-3", got)
	}
}

func TestTheLabelThatNamesNodesCanBeChosen(t *testing.T) {
	args := newFakePrometheus(t).args()
	args.NodeLabel = "kubernetes_node"
	poller := newPoller(args, http.DefaultTransport, testingclock.NewFakeClock(time.Now()))
	labels := map[string]string{"kubernetes_node": "a", "node": "b", "instance": "c:9100"}
	if got := poller.node(labels); got != "a" {
		t.Errorf("%s, want a", got)
	}
	poller.label = ""
	if got := poller.node(labels); got != "b" {
		t.Errorf("%s, want b", got)
	}
	delete(labels, "node")
	if got := poller.node(labels); got != "c" {
		t.Errorf("%s, want c", got)
	}
}

func TestPrometheusIsPolledInTheBackgroundUntilTheEnd(t *testing.T) {
	prometheus := newFakePrometheus(t)
	prometheus.says("cpu", "node=node-1 10\nnode=node-2 50\nnode=node-3 90")
	args := argsFor("http://127.0.0.1:1")
	args.Prometheus = prometheus.args()
	clock := testingclock.NewFakeClock(time.Now())
	plugin, err := newPlugin(args, clock)
	if err != nil {
		t.Fatal(err)
	}
	plugin.start(context.Background())
	polls := func() int {
		prometheus.mu.Lock()
		defer prometheus.mu.Unlock()
		return prometheus.asked / int(metricCount)
	}
	for want := 1; want <= 3; want++ {
		for polls() < want {
			time.Sleep(time.Millisecond)
		}
		clock.Step(args.Prometheus.Interval.Duration)
	}
	// Close returns only once the polling has ended.
	if err := plugin.Close(); err != nil {
		t.Fatal(err)
	}
	last := polls()
	clock.Step(args.Prometheus.Interval.Duration)
	if again := polls(); again != last {
		t.Errorf("%d polls after the end", again-last)
	}
}
