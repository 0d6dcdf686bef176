// Package score is a plugin of kube-scheduler that ranks the feasible nodes by what a Plimsoll server says of them. PreScore asks the server
// once for all nodes, Score answers from what came. Where the server does not answer, the load that Prometheus knows decides, and where that
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
	stop       context.CancelFunc
	polling    sync.WaitGroup
	warnOnce   sync.Once
}

// ranking is what PreScore leaves for Score: a score for each node by name.
type ranking map[string]int64

// Clone gives the same ranking: nobody changes it.
func (r ranking) Clone() fwk.StateData { return r }

// New makes the plugin from the `args` of its `pluginConfig`. It ends what it does in the background with the context, or at Close.
func New(ctx context.Context, configuration runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	args, err := decodeArgs(configuration)
	if err != nil {
		return nil, err
	}
	p, err := newPlugin(args, clock.RealClock{})
	if err != nil {
		return nil, err
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
		stop:     func() {},
	}
	if args.Prometheus != nil {
		p.prometheus = newPoller(args.Prometheus, transport, clock)
	}
	return p, nil
}

// start begins what runs in the background.
func (p *Plugin) start(ctx context.Context) {
	ctx, p.stop = context.WithCancel(ctx)
	if p.prometheus != nil {
		p.polling.Go(func() { p.prometheus.run(ctx) })
	}
}

// Name is the name of the plugin.
func (p *Plugin) Name() string { return Name }

// Close ends the polling and the kept connections.
func (p *Plugin) Close() error {
	p.stop()
	p.polling.Wait()
	p.client.http.CloseIdleConnections()
	return nil
}

// PreScore finds the scores of all nodes, with one request at most.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	ranking, source := p.rank(ctx, pod, nodes)
	scoresTotal.WithLabelValues(source).Inc()
	if len(ranking) == 0 {
		// All nodes are equal to this plugin, which spares it the calls of Score.
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(stateKey, ranking)
	return nil
}

func (p *Plugin) rank(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) (ranking, string) {
	ranking, err := p.ask(ctx, pod, nodes)
	if ranking != nil {
		return ranking, sourceServer
	}
	klog.FromContext(ctx).V(4).Info("The Plimsoll server gave no scores", "err", err)
	if p.prometheus != nil {
		if ranking := rankByLoad(p.prometheus.fresh(), nodes, p.fallback); ranking != nil {
			return ranking, sourcePrometheus
		}
	}
	return nil, sourceNeutral
}

// ask gives the server's ranking; none where it could not be had, or where the server knows none of the nodes.
func (p *Plugin) ask(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) (ranking, error) {
	if !p.breaker.allow() {
		errorsTotal.WithLabelValues(reasonCircuitOpen).Inc()
		return nil, errors.New("it has failed and is not asked for a while")
	}
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Node().Name
	}
	told := p.notes.take()
	begin := p.clock.Now()
	scores, failure := p.client.scores(ctx, pod, names, told)
	requestDuration.Observe(p.clock.Since(begin).Seconds())
	if failure != nil {
		return nil, p.failed(ctx, failure, told)
	}
	if p.breaker.success() {
		klog.FromContext(ctx).Info("The Plimsoll server answers again", "url", p.client.url)
	}
	ranking := ranking{}
	known, alike := false, true
	for i, score := range scores {
		// Most nodes often have none: what is not there is zero.
		if score.value > 0 {
			ranking[names[i]] = score.value
		}
		known = known || score.known
		alike = alike && score == scores[0]
	}
	if !known {
		return nil, fmt.Errorf("it knows none of the %d nodes", len(names))
	}
	if alike {
		clear(ranking)
	}
	return ranking, nil
}

// failed counts a request that brought no scores, and keeps what it was to tell the server for the next one.
func (p *Plugin) failed(ctx context.Context, failure *failure, told told) error {
	if ctx.Err() != nil {
		// The scheduler is ending: that says nothing about the server.
		p.breaker.undecided()
		return failure
	}
	errorsTotal.WithLabelValues(failure.reason).Inc()
	if failure.aboutPod {
		p.breaker.success()
		return failure
	}
	p.notes.giveBack(told)
	if pause := p.breaker.failure(failure.retryAfter); pause > 0 {
		klog.FromContext(ctx).Info("The Plimsoll server is not asked for a while, other scores decide", "url", p.client.url, "pause", pause, "reason", failure.reason, "err", failure.err)
	}
	return failure
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
	return ranking[node.Node().Name], nil
}

// ScoreExtensions gives NormalizeScore.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives the best of the nodes 100 and the others their share of that, so that the weight of the plugin has the same effect
// whatever the scale of the scores is.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	return helper.DefaultNormalizeScore(fwk.MaxNodeScore, false, scores)
}

// Reserve notes where the pod goes, for the server to know before its watch does.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.notes.place(placement{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: node})
	return nil
}

// Unreserve notes that the pod does not go there.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.notes.release(pod.UID)
}
