package score

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

func testBreaker() (*breaker, *testingclock.FakePassiveClock) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	settings := CircuitBreaker{Failures: 3, Pause: metav1.Duration{Duration: time.Second}, MaxPause: metav1.Duration{Duration: 5 * time.Second}}
	return newBreaker(settings, clock), clock
}

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	breaker, clock := testBreaker()
	for i := range 2 {
		if pause := breaker.failure(0); pause != 0 || !breaker.allow() {
			t.Fatalf("failure %d: a pause of %s, want none before the third", i+1, pause)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		want *= time.Second
		if pause := breaker.failure(0); pause != want {
			t.Fatalf("a pause of %s, want %s", pause, want)
		}
		clock.SetTime(clock.Now().Add(want - 1))
		if breaker.allow() {
			t.Fatalf("asked before %s have passed", want)
		}
		clock.SetTime(clock.Now().Add(1))
		if !breaker.allow() {
			t.Fatalf("not asked after %s", want)
		}
		if breaker.allow() {
			t.Fatal("asked twice at a time after a pause")
		}
	}
}

func TestASuccessBeginsAnew(t *testing.T) {
	breaker, clock := testBreaker()
	breaker.failure(0)
	breaker.failure(0)
	if breaker.success() {
		t.Error("a success before any pause is no news")
	}
	for range 2 {
		if pause := breaker.failure(0); pause != 0 {
			t.Fatalf("a pause of %s: failures before the success count", pause)
		}
	}
	breaker.failure(0)
	clock.SetTime(clock.Now().Add(time.Second))
	breaker.allow()
	breaker.failure(0)
	clock.SetTime(clock.Now().Add(2 * time.Second))
	if !breaker.allow() || !breaker.success() {
		t.Error("a success after a pause is news")
	}
	if !breaker.allow() || !breaker.allow() {
		t.Error("not asked as usual after a success")
	}
	breaker.failure(0)
	breaker.failure(0)
	if pause := breaker.failure(0); pause != time.Second {
		t.Errorf("a pause of %s, want the first one again", pause)
	}
}

func TestAServerThatSaysWhenToComeBackIsNotAskedBefore(t *testing.T) {
	breaker, clock := testBreaker()
	if pause := breaker.failure(3 * time.Second); pause != 3*time.Second || breaker.allow() {
		t.Errorf("a pause of %s, want 3s after one failure", pause)
	}
	clock.SetTime(clock.Now().Add(3 * time.Second))
	if !breaker.allow() {
		t.Error("not asked after 3s")
	}
	if pause := breaker.failure(time.Hour); pause != 5*time.Second {
		t.Errorf("a pause of %s, want no more than the longest", pause)
	}
}

func TestADeadServerIsLeftAloneAndTakenBackWithoutARestart(t *testing.T) {
	server := newServer(t)
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	server.answers(http.StatusInternalServerError, "")
	failed, skipped, fromServer := counted(t, errorsTotal, reasonStatus), counted(t, errorsTotal, reasonCircuitOpen), counted(t, scoresTotal, sourceServer)
	for range 10 {
		bench.schedule(t, makePod("web"))
	}
	if len(server.requests()) != 3 || failed() != 3 || skipped() != 7 {
		t.Fatalf("%d requests, %d failed, %d left out; want 3, 3 and 7 of 10", len(server.requests()), failed(), skipped())
	}
	bench.clock.Step(time.Second)
	bench.schedule(t, makePod("web"))
	bench.schedule(t, makePod("web"))
	if len(server.requests()) != 4 {
		t.Fatalf("%d requests, want one try after the pause", len(server.requests()))
	}
	server.answersBy(nil)
	bench.clock.Step(2 * time.Second)
	for range 3 {
		if got := bench.schedule(t, makePod("web")); allEqual(got) {
			t.Errorf("scores %v, want the server's", got)
		}
	}
	if fromServer() != 3 || len(server.requests()) != 7 {
		t.Errorf("%d pods scored by the server with %d requests, want 3 and 7", fromServer(), len(server.requests()))
	}
}

func TestABusyServerIsAskedAgainWhenItSaid(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		server := newServer(t)
		bench := newBench(t, argsFor(server.URL), makeNodes(3))
		server.answersBy(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		bench.schedule(t, makePod("web"))
		server.answersBy(nil)
		bench.clock.Step(7*time.Second - 1)
		bench.schedule(t, makePod("web"))
		if len(server.requests()) != 1 {
			t.Errorf("%d: asked again too early", status)
		}
		bench.clock.Step(1)
		bench.schedule(t, makePod("web"))
		if len(server.requests()) != 2 {
			t.Errorf("%d: not asked again after 7s", status)
		}
	}
}

func TestAPodThatCannotBeScoredDoesNotCostTheOthersTheirScores(t *testing.T) {
	server := newServer(t)
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	server.answers(http.StatusOK, `{"items":[{"error":"not this one"}]}`)
	for range 10 {
		bench.schedule(t, makePod("odd"))
	}
	if asked := len(server.requests()); asked != 10 {
		t.Errorf("%d requests for 10 pods: the server was left alone although it works", asked)
	}
}
