package score

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	testingclock "k8s.io/utils/clock/testing"
)

// The weight of the plugin in the tests' profile.
const weight = 2

// A path under which the server answers, too.
const behind = "/behind"

func TestMain(m *testing.M) {
	schedulermetrics.Register()
	os.Exit(m.Run())
}

// server is a Plimsoll server that answers as a test wants.
type server struct {
	*httptest.Server
	connections atomic.Int64

	mu      sync.Mutex
	asked   []request
	headers []http.Header
	answer  http.HandlerFunc
}

// newServer starts a server that gives the scores 10, 20, 30 … to the nodes in turn.
func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || strings.TrimPrefix(r.URL.Path, behind) != "/v1/scores" {
		http.NotFound(w, r)
		return
	}
	var asked request
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	s.headers = append(s.headers, r.Header.Clone())
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	scores := make([]string, len(asked.Items[0].Nodes))
	for i := range scores {
		scores[i] = fmt.Sprint((i + 1) * 10)
	}
	fmt.Fprintf(w, `{"items":[{"scores":[%s],"policy":"energy","decidedBy":"model"}]}`, strings.Join(scores, ","))
}

// answers has the server say this from now on, or its usual answer if empty.
func (s *server) answers(status int, body string) {
	s.answersBy(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func (s *server) answersBy(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.asked...)
}

func (s *server) lastRequest(t testing.TB) request {
	t.Helper()
	requests := s.requests()
	if len(requests) == 0 {
		t.Fatal("the server was not asked")
	}
	return requests[len(requests)-1]
}

// argsFor gives arguments for a server, with a timeout that no working server meets.
func argsFor(address string) *Args {
	args := &Args{Address: address, Timeout: metav1.Duration{Duration: maxTimeout}}
	args.setDefaults()
	return args
}

// bench is a plugin in a framework, with nodes to rank and a clock of its own.
type bench struct {
	plugin    *Plugin
	framework framework.Framework
	clock     *testingclock.FakeClock
	nodes     []fwk.NodeInfo
	// The pods that the scheduler knows of.
	pods map[string]*v1.Pod
}

func newBench(t testing.TB, args *Args, nodes []*v1.Node) *bench {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	b := &bench{clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	plugin, err := newPlugin(args, b.clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plugin.Close() })
	b.plugin = plugin
	b.pods = map[string]*v1.Pod{}
	plugin.upcoming.lookup = func(_, name string) *v1.Pod { return b.pods[name] }
	factory := func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }
	snapshot := cache.NewSnapshot(nil, nodes)
	b.framework, err = tf.NewFramework(ctx, []tf.RegisterPluginFunc{
		tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
		tf.RegisterPluginAsExtensionsWithWeight(Name, weight, factory, "PreFilter", "PreScore", "Score", "Reserve"),
	}, "default-scheduler", frameworkruntime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		info, err := snapshot.NodeInfos().Get(node.Name)
		if err != nil {
			t.Fatal(err)
		}
		b.nodes = append(b.nodes, info)
	}
	return b
}

// schedule runs the scoring of one pod as the scheduler does and gives the weighted scores, in the order of nodes.
func (b *bench) schedule(t testing.TB, pod *v1.Pod) []int64 {
	t.Helper()
	return b.score(t, framework.NewCycleState(), pod, b.nodes)
}

// waits has pods wait in the queue.
func (b *bench) waits(pods ...*v1.Pod) {
	for _, pod := range pods {
		b.pods[pod.Name] = pod
		b.plugin.PreEnqueue(context.Background(), pod)
	}
}

// cycle runs a whole cycle of a pod for which all nodes are feasible, and gives the weighted scores.
func (b *bench) cycle(t testing.TB, pod *v1.Pod, node string) []int64 {
	t.Helper()
	scores := b.score(t, b.begin(t, pod), pod, b.nodes)
	b.reserve(t, pod, node)
	return scores
}

// begin runs a cycle as far as to where nodes are looked for.
func (b *bench) begin(t testing.TB, pod *v1.Pod) fwk.CycleState {
	t.Helper()
	state := framework.NewCycleState()
	if _, status, _ := b.framework.RunPreFilterPlugins(context.Background(), state, pod); !status.IsSuccess() {
		t.Fatalf("PreFilter: %v", status)
	}
	return state
}

// score goes on with those of the nodes that are feasible.
func (b *bench) score(t testing.TB, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) []int64 {
	t.Helper()
	ctx := context.Background()
	if status := b.framework.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		t.Fatalf("PreScore: %v", status)
	}
	scored, status := b.framework.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		t.Fatalf("Score: %v", status)
	}
	totals := make([]int64, len(scored))
	for i, node := range scored {
		totals[i] = node.TotalScore
	}
	return totals
}

func (b *bench) reserve(t testing.TB, pod *v1.Pod, node string) {
	t.Helper()
	if status := b.framework.RunReservePluginsReserve(context.Background(), framework.NewCycleState(), pod, node); !status.IsSuccess() {
		t.Fatalf("Reserve: %v", status)
	}
}

func (b *bench) unreserve(pod *v1.Pod, node string) {
	b.framework.RunReservePluginsUnreserve(context.Background(), framework.NewCycleState(), pod, node)
}

func makeNodes(count int) []*v1.Node {
	nodes := make([]*v1.Node, count)
	for i := range nodes {
		resources := map[v1.ResourceName]string{v1.ResourceCPU: "8", v1.ResourceMemory: "10G", v1.ResourcePods: "100"}
		nodes[i] = st.MakeNode().Name(fmt.Sprintf("node-%d", i+1)).Capacity(resources).Obj()
	}
	return nodes
}

func makePod(name string) *v1.Pod {
	return st.MakePod().Namespace("shop").Name(name).UID("uid-" + name).Req(map[v1.ResourceName]string{v1.ResourceCPU: "1"}).Obj()
}

// counted gives how much a counter has grown between now and the call of what it returns.
func counted(t testing.TB, vector *metrics.CounterVec, label string) func() int {
	t.Helper()
	read := func() float64 {
		t.Helper()
		value, err := testutil.GetCounterMetricValue(vector.WithLabelValues(label))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	registerMetrics()
	before := read()
	return func() int { t.Helper(); return int(read() - before) }
}

func allEqual(scores []int64) bool {
	for _, score := range scores {
		if score != scores[0] {
			return false
		}
	}
	return true
}
