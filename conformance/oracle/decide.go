package oracle

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// leftOut is the reason given for a node that a PreFilter result excludes: the
// filters never see it, so that no plugin has a word of its own.
const leftOut = "node is filtered out by the prefilter result"

// ErrUnstable marks a question to which kube-scheduler itself gives one of
// several answers by chance.
var ErrUnstable = errors.New("the answer is not stable")

// Decide answers one case with a fresh copy of the scheduler's state.
func Decide(c *Case) (*Expect, error) {
	if c.Pod == nil {
		return nil, fmt.Errorf("case %s: no pod", c.Name)
	}
	cluster, err := newCluster(c.Config, &c.Objects, c.Pod)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	defer cluster.close()
	expect, _, err := cluster.decide(c.Pod.DeepCopy())
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	return expect, nil
}

// decide runs one scheduling cycle up to the choice of the node, as
// schedule_one does, but looking at every node. An error means that stock
// kube-scheduler would abandon the attempt with an error.
func (c *cluster) decide(pod *v1.Pod) (*Expect, fwk.CycleState, error) {
	// A snapshot made anew takes the size of an image from each node itself; the
	// scheduler's cache takes it from the node that reported the image first.
	*c.snapshot = *internalcache.NewSnapshot(c.pods, c.nodes)
	state := framework.NewCycleState()
	expect := &Expect{Feasible: []string{}, Rejected: map[string]Rejection{}}

	for _, plugin := range c.framework.PreEnqueuePlugins() {
		if plugin.Name() != names.SchedulingGates {
			continue
		}
		if status := plugin.PreEnqueue(c.ctx, pod); !status.IsSuccess() {
			expect.PreEnqueue = rejection(status.WithPlugin(plugin.Name()))
			return expect, state, nil
		}
	}

	allowed, status, _ := c.framework.RunPreFilterPlugins(c.ctx, state, pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, nil, status.AsError()
		}
		expect.PreFilter = rejection(status)
		statuses := framework.NewDefaultNodeToStatus()
		statuses.SetAbsentNodesStatus(status)
		return expect, state, c.postFilter(expect, state, pod, statuses)
	}

	nodes, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return nil, nil, err
	}
	if nominated, err := c.nominatedNode(pod, state); err != nil {
		return nil, nil, err
	} else if nominated != nil {
		nodes, allowed = []fwk.NodeInfo{nominated}, nil
	}

	var feasible []fwk.NodeInfo
	statuses := framework.NewDefaultNodeToStatus()
	for _, node := range nodes {
		name := node.Node().Name
		if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
			expect.Rejected[name] = Rejection{Code: fwk.UnschedulableAndUnresolvable.String(), Reasons: []string{leftOut}}
			statuses.Set(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, leftOut))
			continue
		}
		status := c.framework.RunFilterPluginsWithNominatedPods(c.ctx, state, pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
			expect.Feasible = append(expect.Feasible, name)
		case status.IsRejected():
			expect.Rejected[name] = *rejection(status)
			statuses.Set(name, status)
		default:
			return nil, nil, fmt.Errorf("node %s: %w", name, status.AsError())
		}
	}
	slices.Sort(expect.Feasible)
	if len(feasible) == 0 {
		return expect, state, c.postFilter(expect, state, pod, statuses)
	}
	return expect, state, c.score(expect, state, pod, feasible)
}

// nominatedNode gives the node an earlier preemption cleared for pod, if pod
// fits there now: kube-scheduler then looks no further.
func (c *cluster) nominatedNode(pod *v1.Pod, state fwk.CycleState) (fwk.NodeInfo, error) {
	if pod.Status.NominatedNodeName == "" {
		return nil, nil
	}
	node, err := c.snapshot.NodeInfos().Get(pod.Status.NominatedNodeName)
	if err != nil {
		return nil, nil
	}
	status := c.framework.RunFilterPluginsWithNominatedPods(c.ctx, state, pod, node)
	switch {
	case status.IsSuccess():
		return node, nil
	case status.IsRejected():
		return nil, nil
	}
	return nil, status.AsError()
}

func (c *cluster) score(expect *Expect, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) error {
	expect.Scores = map[string]map[string]int64{}
	expect.Totals = map[string]int64{}
	if !c.framework.HasScorePlugins() {
		for _, name := range expect.Feasible {
			expect.Totals[name] = 1
		}
		return nil
	}
	if status := c.framework.RunPreScorePlugins(c.ctx, state, pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := c.framework.RunScorePlugins(c.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for _, node := range scores {
		expect.Totals[node.Name] = node.TotalScore
		for _, score := range node.Scores {
			if expect.Scores[score.Name] == nil {
				expect.Scores[score.Name] = map[string]int64{}
			}
			expect.Scores[score.Name][node.Name] = score.Score
		}
	}
	return nil
}

func (c *cluster) postFilter(expect *Expect, state fwk.CycleState, pod *v1.Pod, statuses *framework.NodeToStatus) error {
	if !c.framework.HasPostFilterPlugins() {
		return nil
	}
	if c.preemption != nil {
		c.preemption.Chosen, c.preemption.unstable = nil, false
	}
	// An error here ends the attempt like a refusal does: nothing is nominated.
	result, _ := c.framework.RunPostFilterPlugins(c.ctx, state, pod, statuses)
	if c.preemption == nil {
		return nil
	}
	if c.preemption.unstable {
		return ErrUnstable
	}
	if result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" {
		return nil
	}
	expect.Preemption = c.preemption.Chosen
	return nil
}

func rejection(status *fwk.Status) *Rejection {
	reasons := slices.Clone(status.Reasons())
	slices.Sort(reasons)
	if reasons == nil {
		reasons = []string{}
	}
	return &Rejection{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: reasons}
}
