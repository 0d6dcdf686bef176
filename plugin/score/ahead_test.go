package score

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// by has the server give nodes scores by their names, of the most that is asked for, and say whether other nodes count.
func (s *server) by(scores map[string]float64, apart bool) {
	s.answersBy(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		asked := s.asked[len(s.asked)-1]
		s.mu.Unlock()
		most := max(asked.Most, 100)
		var given []string
		for _, name := range asked.Items[0].Nodes {
			given = append(given, fmt.Sprint(int64(scores[name]*float64(most))))
		}
		fmt.Fprintf(w, `{"items":[{"scores":[%s],"apart":%t,"policy":"energy","decidedBy":"model"}]}`, strings.Join(given, ","), apart)
	})
}

// awaits waits until the server has been asked so often.
func (s *server) awaits(t testing.TB, count int) []request {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if asked := s.requests(); len(asked) == count {
			return asked
		} else if time.Since(begin) > maxTimeout {
			t.Fatalf("asked %d times, want %d", len(asked), count)
		}
	}
}

func podOf(asked request) string { return asked.Items[0].Pod.Name }

// newAsked gives a bench of three nodes on which one pod was placed, so that it is known where nodes are found.
func newAsked(t testing.TB, change func(*Args)) (*server, *bench) {
	server := newServer(t)
	server.by(map[string]float64{"node-1": 0, "node-2": 0.5, "node-3": 1}, true)
	args := argsFor(server.URL)
	if change != nil {
		change(args)
	}
	bench := newBench(t, args, makeNodes(3))
	bench.cycle(t, makePod("first"), "node-3")
	return server, bench
}

func TestTheServerWorksWhileNodesAreLookedFor(t *testing.T) {
	server, bench := newAsked(t, nil)
	pod := makePod("web")
	state := bench.begin(t, pod)
	asked := server.awaits(t, 2)[1]
	if len(asked.Items[0].Nodes) != 3 || podOf(asked) != "web" || asked.Most != finest || len(asked.Placed) != 1 {
		t.Errorf("asked %+v, want web, three nodes, the finest scores and one placement", asked)
	}
	if got, want := bench.score(t, state, pod, bench.nodes), []int64{0, 50 * weight, 100 * weight}; !slices.Equal(got, want) {
		t.Errorf("scores %v, want %v", got, want)
	}
	server.awaits(t, 2)
}

func TestThePodThatIsNextIsAskedAboutOnceTheOneBeforeHasItsNode(t *testing.T) {
	server, bench := newAsked(t, nil)
	a, b := makePod("a"), makePod("b")
	bench.waits(a, b)
	bench.cycle(t, a, "node-2")
	asked := server.awaits(t, 3)[2]
	if podOf(asked) != "b" || len(asked.Placed) != 1 || asked.Placed[0].Name != "a" {
		t.Errorf("asked about %s with %v placed, want b with a placed", podOf(asked), asked.Placed)
	}
	fromServer := counted(t, scoresTotal, sourceServer)
	if got := bench.cycle(t, b, "node-1"); got[2] != 100*weight || fromServer() != 1 {
		t.Errorf("scores %v, want those of the server", got)
	}
	server.awaits(t, 3)
}

func TestWhatIsNotAsItWasWhenTheServerWasAskedIsAskedAnew(t *testing.T) {
	cases := map[string]func(t *testing.T, bench *bench) (*v1.Pod, fwk.CycleState){
		"another pod comes": func(t *testing.T, bench *bench) (*v1.Pod, fwk.CycleState) {
			other := makePod("other")
			return other, bench.begin(t, other)
		},
		"the pod was changed": func(t *testing.T, bench *bench) (*v1.Pod, fwk.CycleState) {
			changed := makePod("b")
			changed.ResourceVersion = "2"
			return changed, bench.begin(t, changed)
		},
		"a placement was undone before the turn": func(t *testing.T, bench *bench) (*v1.Pod, fwk.CycleState) {
			bench.unreserve(makePod("a"), "node-2")
			return bench.pods["b"], bench.begin(t, bench.pods["b"])
		},
		"a placement was undone in the turn": func(t *testing.T, bench *bench) (*v1.Pod, fwk.CycleState) {
			state := bench.begin(t, bench.pods["b"])
			bench.unreserve(makePod("a"), "node-2")
			return bench.pods["b"], state
		},
		"another profile placed a pod": func(t *testing.T, bench *bench) (*v1.Pod, fwk.CycleState) {
			newBench(t, argsFor("http://127.0.0.1:1"), makeNodes(1)).reserve(t, makePod("c"), "node-1")
			return bench.pods["b"], bench.begin(t, bench.pods["b"])
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			server, bench := newAsked(t, nil)
			a, b := makePod("a"), makePod("b")
			bench.waits(a, b)
			bench.cycle(t, a, "node-2")
			server.awaits(t, 3)
			pod, state := change(t, bench)
			if got := bench.score(t, state, pod, bench.nodes); got[2] != 100*weight {
				t.Errorf("scores %v, want those of the server", got)
			}
			if asked := server.awaits(t, 4)[3]; podOf(asked) != pod.Name {
				t.Errorf("asked about %s at last, want %s", podOf(asked), pod.Name)
			}
		})
	}
}

func TestWhatARequestThatIsGivenUpWasToTellIsToldAgain(t *testing.T) {
	server, bench := newAsked(t, nil)
	a, b := makePod("a"), makePod("b")
	bench.waits(a, b)
	bench.score(t, bench.begin(t, a), a, bench.nodes)
	server.answersBy(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	bench.reserve(t, a, "node-2")
	server.awaits(t, 3)
	bench.unreserve(a, "node-2")
	server.by(map[string]float64{"node-1": 1}, true)
	late := counted(t, errorsTotal, reasonTimeout)
	bench.score(t, bench.begin(t, b), b, bench.nodes)
	asked := server.lastRequest(t)
	if len(asked.Released) != 1 || asked.Released[0] != "uid-a" || len(asked.Placed) != 0 {
		t.Errorf("placed %v, released %v; want a released, since the request with its placement was given up", asked.Placed, asked.Released)
	}
	if late() != 0 || !bench.plugin.breaker.allow() {
		t.Error("a request that was given up counts as a failure of the server")
	}
}

func TestTheBestOfTheFeasibleNodesHas100(t *testing.T) {
	scores := map[string]float64{"node-1": 0.2, "node-2": 0.4000001, "node-3": 1, "node-4": 0.4, "node-5": 0}
	server := newServer(t)
	server.by(scores, true)
	bench := newBench(t, argsFor(server.URL), makeNodes(5))
	bench.cycle(t, makePod("first"), "node-3")
	pod := makePod("web")
	state := bench.begin(t, pod)
	server.awaits(t, 2)
	feasible := []fwk.NodeInfo{bench.nodes[3], bench.nodes[1], bench.nodes[0]}
	if got, want := bench.score(t, state, pod, feasible), []int64{99 * weight, 100 * weight, 0}; !slices.Equal(got, want) {
		t.Errorf("scores %v, want %v: node-3 and node-5 do not count", got, want)
	}
	server.awaits(t, 2)
}

func TestWhereNodesCountForEachOtherOnlyTheFeasibleOnesAreAskedAbout(t *testing.T) {
	server, bench := newAsked(t, nil)
	server.by(map[string]float64{"node-1": 1, "node-2": 0.5}, false)
	pod := makePod("web")
	state := bench.begin(t, pod)
	server.awaits(t, 2)
	bench.score(t, state, pod, bench.nodes[:2])
	if asked := server.awaits(t, 3)[2]; !slices.Equal(asked.Items[0].Nodes, []string{"node-1", "node-2"}) {
		t.Errorf("asked about %v, want the feasible nodes", asked.Items[0].Nodes)
	}
	state = bench.begin(t, pod)
	server.awaits(t, 3)
	bench.score(t, state, pod, bench.nodes)
	server.awaits(t, 4)
}

func TestAnAnswerThatDoesNotComeIsWaitedForAsLongAsAnyOther(t *testing.T) {
	server, bench := newAsked(t, func(args *Args) { args.Timeout.Duration = 20 * time.Millisecond })
	server.answersBy(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	late, neutral := counted(t, errorsTotal, reasonTimeout), counted(t, scoresTotal, sourceNeutral)
	for i := range bench.plugin.breaker.settings.Failures {
		pod := makePod(fmt.Sprint("web-", i))
		if got := bench.score(t, bench.begin(t, pod), pod, bench.nodes); !allEqual(got) {
			t.Errorf("scores %v, want all equal", got)
		}
	}
	if late() != 3 || neutral() != 3 || bench.plugin.breaker.allow() {
		t.Errorf("%d timeouts and %d neutral pods, want 3 of both, and the circuit open", late(), neutral())
	}
}

func TestPodsThatComeToNothingAreSeldomAskedAbout(t *testing.T) {
	server, bench := newAsked(t, nil)
	const pods = 100
	for i := range pods {
		bench.begin(t, makePod(fmt.Sprint("hopeless-", i)))
	}
	if asked := len(server.requests()); asked > 10 {
		t.Errorf("asked about %d of %d pods whose nodes were never scored", asked-1, pods)
	}
	pod := makePod("web")
	for range 1 << maxUnused {
		bench.cycle(t, pod, "node-1")
	}
	asked := len(server.requests())
	bench.begin(t, pod)
	server.awaits(t, asked+1)
}

func TestNothingIsLeftRunningAfterTheEnd(t *testing.T) {
	server, bench := newAsked(t, nil)
	server.answersBy(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	bench.plugin.start(context.Background())
	bench.begin(t, makePod("web"))
	server.awaits(t, 2)
	if err := bench.plugin.Close(); err != nil {
		t.Fatal(err)
	}
	<-bench.plugin.inquiry.done
	if !bench.plugin.breaker.allow() || bench.plugin.breaker.failures != 0 {
		t.Error("the end of the scheduler counts as a failure of the server")
	}
}
