package score

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Of so many points the best has all where the scores are brought to 100 here: so many that nodes stay as different as they are to the server.
const finest = 1_000_000_000

// Answers of no use in a row after which the pause is not longer: 64 pods.
const maxUnused = 6

var (
	errLate   = errors.New("no answer in time")
	errUnused = errors.New("the answer is not needed any more")
)

// moments counts what kube-scheduler has placed and given up, with all profiles: an answer from before says nothing about now.
var moments atomic.Uint64

// inquiry is a request whose answer is needed later.
type inquiry struct {
	uid     types.UID
	version string
	nodes   stretch
	moment  uint64
	// Whether the pod's turn has come.
	begun  bool
	cancel context.CancelCauseFunc
	// Closed when the two below are set.
	done    chan struct{}
	answer  answer
	failure *failure
}

// isFor says whether the answer is one for this pod, and for things as they are.
func (i *inquiry) isFor(pod *v1.Pod) bool {
	return i != nil && i.uid == pod.UID && i.version == pod.ResourceVersion && i.moment == moments.Load()
}

// covers says whether it was asked about the nodes at all of these places.
func (i *inquiry) covers(places []int) bool {
	for _, place := range places {
		if i.nodes.within(place) >= i.nodes.count {
			return false
		}
	}
	return len(places) > 0
}

// wait gives what came; the time runs from now.
func (i *inquiry) wait(ctx context.Context, timeout time.Duration) (answer, *failure) {
	select {
	case <-i.done:
		return i.answer, i.failure
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-i.done:
	case <-timer.C:
		i.cancel(errLate)
	case <-ctx.Done():
		i.cancel(errUnused)
	}
	<-i.done
	return i.answer, i.failure
}

// inquire asks about a pod whose scores are needed soon. Nobody waits here.
func (p *Plugin) inquire(pod *v1.Pod) {
	nodes, ok := p.walk.ahead()
	// A pod with a node nominated to it is mostly not scored.
	if !ok || p.pause > 0 || pod.Status.NominatedNodeName != "" || !p.breaker.allow() {
		return
	}
	i := &inquiry{uid: pod.UID, version: pod.ResourceVersion, nodes: nodes, moment: moments.Load(), done: make(chan struct{})}
	asked := question{pod: pod, nodes: nodes, most: finest, told: p.notes.take()}
	ctx, cancel := context.WithCancelCause(p.life)
	i.cancel = cancel
	p.inquiry = i
	p.asking.Go(func() {
		defer close(i.done)
		defer cancel(nil)
		// Nobody waits for longer, whenever that begins.
		ctx, stop := context.WithTimeoutCause(ctx, 2*p.client.timeout, errLate)
		defer stop()
		i.answer, i.failure = p.request(ctx, asked)
	})
}

// begin has the server work on a pod whose turn has come while kube-scheduler looks for nodes, unless it does so already.
func (p *Plugin) begin(pod *v1.Pod) {
	p.upcoming.goes(pod.UID)
	if p.inquiry != nil && p.inquiry.uid != pod.UID {
		p.upcoming.goes(p.inquiry.uid)
	}
	if !p.inquiry.isFor(pod) {
		p.drop()
		p.inquire(pod)
	}
	if p.inquiry != nil {
		p.inquiry.begun = true
	}
	p.pause = max(0, p.pause-1)
}

// drop gives up an answer that is of no use. Where that happens again and again, nothing is asked ahead for a while.
func (p *Plugin) drop() {
	i := p.inquiry
	if i == nil {
		return
	}
	if i.begun {
		p.unused = min(p.unused+1, maxUnused)
		p.pause = 1 << p.unused
	}
	i.cancel(errUnused)
	<-i.done
	p.inquiry = nil
}

// asked gives the ranking by what was asked before; false if nothing was, or if it was not about the feasible nodes and this moment.
func (p *Plugin) asked(ctx context.Context, pod *v1.Pod) (ranking, error, bool) {
	i, feasible := p.inquiry, p.walk.places
	if !i.isFor(pod) || i.nodes.roll != p.walk.roll || !i.covers(feasible) {
		return ranking{}, nil, false
	}
	answer, failure := i.wait(ctx, p.client.timeout)
	if failure != nil {
		p.inquiry = nil
		return ranking{}, missed(ctx, failure), true
	}
	if !i.isFor(pod) || !answer.apart && len(feasible) != i.nodes.count {
		return ranking{}, nil, false
	}
	p.inquiry, p.unused = nil, 0
	ranking, err := i.rank(answer.scores, feasible)
	return ranking, err, true
}

// rank brings the scores of the feasible nodes to between 0 and 100, as the server does with those that it is asked about.
func (i *inquiry) rank(scores []nodeScore, feasible []int) (ranking, error) {
	best, worst, known := int64(-1), int64(finest), false
	for _, place := range feasible {
		if score := scores[i.nodes.within(place)]; score.known {
			best, worst, known = max(best, score.value), min(worst, score.value), true
		}
	}
	if !known {
		return ranking{}, unknown(len(feasible))
	}
	points := make([]int32, len(i.nodes.names))
	alike := true
	for _, place := range feasible {
		point := pointsOf(scores[i.nodes.within(place)], best, worst)
		points[place] = point
		alike = alike && point == int32(fwk.MaxNodeScore)
	}
	if alike {
		return ranking{}, nil
	}
	return ranking{places: i.nodes.placeOf, points: points}, nil
}

// pointsOf gives the best alone 100, so that rounding never makes another as good.
func pointsOf(score nodeScore, best, worst int64) int32 {
	switch {
	case !score.known:
		return 0
	case score.value == best:
		return int32(fwk.MaxNodeScore)
	}
	share := ((score.value-worst)*fwk.MaxNodeScore + (best-worst)/2) / (best - worst)
	return int32(min(share, fwk.MaxNodeScore-1))
}
