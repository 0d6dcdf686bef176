// Package score is a plugin of kube-scheduler that ranks the feasible nodes by what a Plimsoll server says of them. The server is asked once for
// all nodes, before they are needed where it can be told which those are; PreScore has the answer, Score answers from it. Where the server does not answer, the load that Prometheus knows decides, and where that
// is not known either, the plugin keeps out of the decision: a pod is never refused or held up for its sake.
package score

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/clock"
)

// Name is what a KubeSchedulerConfiguration calls the plugin.
const Name = "Plimsoll"

const stateKey fwk.StateKey = "PreScore" + Name

var (
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)

	_ fwk.PreScorePlugin  = (*Plugin)(nil)
	_ fwk.ScorePlugin     = (*Plugin)(nil)
	_ fwk.ScoreExtensions = (*Plugin)(nil)
	_ fwk.ReservePlugin   = (*Plugin)(nil)
)

// Plugin ranks nodes for one profile. It signs no pods (fwk.SignPlugin): scores depend on the whole cluster, so that those of one pod say
// nothing about the next pod, however alike.
type Plugin struct {
	client     *client
	breaker    *breaker
	notes      *notes
	prometheus *poller
	fallback   Fallback
	clock      clock.Clock
	warnOnce   sync.Once

	// What follows is for the scheduling cycle alone, which is one at a time.
	upcoming *upcoming
	walk     walk
	// What is asked ahead; nil if nothing is.
	inquiry *inquiry
	// Answers of no use in a row, and for how many pods nothing is asked ahead.
	unused, pause int

	// Ends when the plugin does, with what it does in the background.
	life            context.Context
	stop            context.CancelFunc
	polling, asking sync.WaitGroup
}

// ranking is what PreScore leaves for Score: points for each node, by its place in a list. Without any, all nodes are equal.
type ranking struct {
	places map[string]int
	points []int32
}

func newRanking(nodes int) ranking {
	return ranking{places: make(map[string]int, nodes), points: make([]int32, nodes)}
}

func (r ranking) set(place int, node fwk.NodeInfo, points int32) {
	r.places[node.Node().Name], r.points[place] = place, points
}

// Clone gives the same ranking: nobody changes it.
func (r ranking) Clone() fwk.StateData { return r }

// New makes the plugin from the `args` of its `pluginConfig`. It ends what it does in the background with the context, or at Close.
func New(ctx context.Context, configuration runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := decodeArgs(configuration)
	if err != nil {
		return nil, err
	}
	p, err := newPlugin(args, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	if handle != nil {
		pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
		p.upcoming.lookup = func(namespace, name string) *v1.Pod {
			// Not to be found is to be gone.
			pod, _ := pods.Pods(namespace).Get(name)
			return pod
		}
	}
	p.start(ctx)
	return p, nil
}

func newPlugin(args *Args, clock clock.WithTicker) (*Plugin, error) {
	registerMetrics()
	transport, err := newTransport(args.CAFile)
	if err != nil {
		return nil, err
	}
	client, err := newClient(args, transport)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		client:   client,
		breaker:  newBreaker(args.CircuitBreaker, clock),
		notes:    newNotes(clock),
		fallback: args.Fallback,
		clock:    clock,
		upcoming: newUpcoming(func(string, string) *v1.Pod { return nil }),
		life:     context.Background(),
		stop:     func() {},
	}
	if args.Prometheus != nil {
		p.prometheus = newPoller(args.Prometheus, transport, clock)
	}
	return p, nil
}

// start begins what runs in the background.
func (p *Plugin) start(ctx context.Context) {
	p.life, p.stop = context.WithCancel(ctx)
	if p.prometheus != nil {
		p.polling.Go(func() { p.prometheus.run(p.life) })
	}
}

// Name is the name of the plugin.
func (p *Plugin) Name() string { return Name }

// Close ends the polling, what is asked, and the kept connections.
func (p *Plugin) Close() error {
	p.stop()
	p.polling.Wait()
	p.asking.Wait()
	p.client.http.CloseIdleConnections()
	return nil
}

// PreEnqueue holds nobody back: it tells which pods are to come.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if len(pod.Spec.SchedulingGates) == 0 {
		p.upcoming.comes(pod)
	}
	return nil
}

// EventsToRegister gives none: no pod waits because of this plugin.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreFilter refuses nobody: it has the server work while kube-scheduler looks for feasible nodes.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.walk.meet(nodes)
	p.begin(pod)
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions gives none.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PreScore finds the scores of all nodes.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	p.walk.found(nodes)
	ranking, source := p.rank(ctx, pod, nodes)
	scoresTotal.WithLabelValues(source).Inc()
	if len(ranking.points) == 0 {
		// All nodes are equal to this plugin, which spares it the calls of Score.
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(stateKey, ranking)
	return nil
}

func (p *Plugin) rank(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) (ranking, string) {
	ranking, err, ok := p.asked(ctx, pod)
	if !ok {
		p.drop()
		ranking, err = p.ask(ctx, pod, nodes)
	}
	if err == nil {
		return ranking, sourceServer
	}
	klog.FromContext(ctx).V(4).Info("The Plimsoll server gave no scores", "err", err)
	if p.prometheus != nil {
		if ranking, ok := rankByLoad(p.prometheus.fresh(), nodes, p.fallback); ok {
			return ranking, sourcePrometheus
		}
	}
	return noRanking, sourceNeutral
}

// noRanking is that of nodes that are equal.
var noRanking ranking

// ask gives the server's ranking; an error says why it could not be had, or that the server knows none of the nodes.
func (p *Plugin) ask(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) (ranking, error) {
	if !p.breaker.allow() {
		errorsTotal.WithLabelValues(reasonCircuitOpen).Inc()
		return noRanking, errors.New("it has failed and is not asked for a while")
	}
	late, cancel := context.WithTimeoutCause(ctx, p.client.timeout, errLate)
	defer cancel()
	answer, failure := p.request(late, question{pod: pod, nodes: namesOf(nodes), told: p.notes.take()})
	if failure != nil {
		return noRanking, missed(ctx, failure)
	}
	ranking := newRanking(len(nodes))
	known, alike := false, true
	for i, score := range answer.scores {
		ranking.set(i, nodes[i], int32(score.value))
		known = known || score.known
		alike = alike && score == answer.scores[0]
	}
	if !known {
		return noRanking, unknown(len(nodes))
	}
	if alike {
		return noRanking, nil
	}
	return ranking, nil
}

func unknown(nodes int) error {
	return fmt.Errorf("it knows none of the %d nodes", nodes)
}

// missed counts a pod that has no scores of the server, unless its cycle is ending.
func missed(ctx context.Context, failure *failure) error {
	if ctx.Err() == nil {
		errorsTotal.WithLabelValues(failure.reason).Inc()
	}
	return failure
}

// request asks the server, which was allowed, and takes in how it went.
func (p *Plugin) request(ctx context.Context, question question) (answer, *failure) {
	begin := p.clock.Now()
	answer, failure := p.client.ask(ctx, question)
	requestDuration.Observe(p.clock.Since(begin).Seconds())
	if failure != nil {
		p.failed(ctx, failure, question.told)
		return answer, failure
	}
	if p.breaker.success() {
		klog.FromContext(ctx).Info("The Plimsoll server answers again", "url", p.client.url)
	}
	return answer, nil
}

// failed takes in that a request brought no scores, and keeps what it was to tell the server for the next one.
func (p *Plugin) failed(ctx context.Context, failure *failure, told told) {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errLate) {
		// The scheduler is ending, or the answer is not needed any more: that says nothing about the server.
		p.breaker.undecided()
		p.notes.giveBack(told)
		return
	}
	if ctx.Err() != nil {
		failure.reason = reasonTimeout
	}
	if failure.aboutPod {
		p.breaker.success()
		return
	}
	p.notes.giveBack(told)
	if pause := p.breaker.failure(failure.retryAfter); pause > 0 {
		klog.FromContext(ctx).Info("The Plimsoll server is not asked for a while, other scores decide", "url", p.client.url, "pause", pause, "reason", failure.reason, "err", failure.err)
	}
}

// Score gives what PreScore has found.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(stateKey)
	if err != nil {
		// An error here would keep every pod of the profile pending.
		p.warnOnce.Do(func() {
			klog.FromContext(ctx).Error(err, "Plimsoll is enabled for score but not for preScore: all nodes are equal to it; enable it by multiPoint")
		})
		return 0, nil
	}
	ranking, ok := data.(ranking)
	if !ok {
		return 0, fwk.AsStatus(fmt.Errorf("the state of %s is a %T", Name, data))
	}
	place, ok := ranking.places[node.Node().Name]
	if !ok {
		return 0, nil
	}
	return int64(ranking.points[place]), nil
}

// ScoreExtensions gives NormalizeScore.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives the best of the nodes 100 and the others their share of that, so that the weight of the plugin has the same effect
// whatever the scale of the scores is.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	return helper.DefaultNormalizeScore(fwk.MaxNodeScore, false, scores)
}

// Reserve notes where the pod goes, for the server to know before its watch does, and asks about the pod that is probably next: there is time
// until its nodes are scored.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.notes.place(placement{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: node})
	moments.Add(1)
	p.drop()
	if next := p.upcoming.next(); next != nil {
		p.inquire(next)
	}
	return nil
}

// Unreserve notes that the pod does not go there.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.notes.release(pod.UID)
	moments.Add(1)
}
