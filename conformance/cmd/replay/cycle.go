package main

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	preempting "k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"plimsoll.dev/conformance/cmd/stock-sim/stock"
)

// picks is how often a tie between two candidates for preemption is drawn, to
// see whether either can win: kube-scheduler breaks it by map order, where the
// rarer of two outcomes has a chance of one in eight.
const picks = 200

// cycle is what kube-scheduler makes of one pod.
type cycle struct {
	pod      *v1.Pod
	state    fwk.CycleState
	feasible []fwk.NodeInfo
	// scores has the feasible nodes, the highest total first, then by name.
	scores []fwk.NodePluginScores
	// statuses says why the other nodes are not feasible.
	statuses *framework.NodeToStatus
}

// runCycle does what a scheduling cycle does up to the choice of the node, but
// looks at every node and chooses none.
func runCycle(s *stock.Scheduler, pod *v1.Pod) (*cycle, error) {
	nodes, err := s.Refresh()
	if err != nil {
		return nil, err
	}
	c := &cycle{pod: pod, state: framework.NewCycleState(), statuses: framework.NewDefaultNodeToStatus()}
	allowed, status, _ := s.Framework.RunPreFilterPlugins(s.Context(), c.state, pod)
	if !status.IsSuccess() {
		c.statuses.SetAbsentNodesStatus(status)
		if status.IsRejected() {
			return c, nil
		}
		return nil, status.AsError()
	}
	if nominated := slices.IndexFunc(nodes, func(node fwk.NodeInfo) bool { return node.Node().Name == pod.Status.NominatedNodeName }); nominated >= 0 {
		if err := c.filter(s, nodes[nominated:nominated+1]); err != nil {
			return nil, err
		}
	}
	if len(c.feasible) == 0 {
		if !allowed.AllNodes() {
			nodes = slices.DeleteFunc(slices.Clone(nodes), func(node fwk.NodeInfo) bool { return !allowed.NodeNames.Has(node.Node().Name) })
		}
		if err := c.filter(s, nodes); err != nil {
			return nil, err
		}
	}
	return c, c.score(s)
}

func (c *cycle) filter(s *stock.Scheduler, nodes []fwk.NodeInfo) error {
	for _, node := range nodes {
		switch status := s.Framework.RunFilterPluginsWithNominatedPods(s.Context(), c.state, c.pod, node); {
		case status.IsSuccess():
			c.feasible = append(c.feasible, node)
		case status.IsRejected():
			c.statuses.Set(node.Node().Name, status)
		default:
			return fmt.Errorf("node %s: %w", node.Node().Name, status.AsError())
		}
	}
	return nil
}

func (c *cycle) score(s *stock.Scheduler) error {
	if len(c.feasible) == 0 {
		return nil
	}
	if status := s.Framework.RunPreScorePlugins(s.Context(), c.state, c.pod, c.feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := s.Framework.RunScorePlugins(s.Context(), c.state, c.pod, c.feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	c.scores = scores
	slices.SortFunc(c.scores, func(a, b fwk.NodePluginScores) int {
		if a.TotalScore != b.TotalScore {
			return -compare(a.TotalScore, b.TotalScore)
		}
		return compare(a.Name, b.Name)
	})
	return nil
}

func compare[T int64 | string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// best are the nodes that share the highest total.
func (c *cycle) best() []string {
	var names []string
	for _, node := range c.scores {
		if node.TotalScore == c.scores[0].TotalScore {
			names = append(names, node.Name)
		}
	}
	return names
}

// rescue is what preemption can do for a pod that fits nowhere.
type rescue struct {
	evaluator *preempting.Evaluator
	// eligible is false for a pod that may not preempt, or not yet.
	eligible   bool
	candidates []preempting.Candidate
}

// findRescue tries evictions on all nodes where they may help; kube-scheduler
// stops at a hundred candidates or a tenth of the nodes.
func (c *cycle) findRescue(s *stock.Scheduler) (*rescue, error) {
	r := &rescue{evaluator: s.Preemption.Evaluator}
	r.eligible, _ = r.evaluator.PodEligibleToPreemptOthers(s.Context(), c.pod, c.statuses.Get(c.pod.Status.NominatedNodeName))
	if !r.eligible {
		return r, nil
	}
	nodes, err := c.statuses.NodesForStatusCode(s.Framework.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return r, err
	}
	budgets, err := r.evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	r.candidates, _, err = r.evaluator.DryRunPreemption(s.Context(), c.state, c.pod, nodes, budgets, 0, int32(len(nodes)))
	if len(r.candidates) > 0 {
		// A node that could not be tried does not stop kube-scheduler from taking another.
		err = nil
	}
	return r, err
}

// best is a candidate that kube-scheduler may choose; nil if there is none.
func (r *rescue) best(s *stock.Scheduler) preempting.Candidate {
	return r.evaluator.SelectCandidate(s.Context(), r.candidates)
}

// mayChoose says whether candidate ties with the best one. Candidates are
// ranked one criterion after the other, so that the two alone rank as among all.
func (r *rescue) mayChoose(s *stock.Scheduler, candidate preempting.Candidate) bool {
	best := r.best(s)
	for range picks {
		if best.Name() == candidate.Name() {
			return true
		}
		best = r.evaluator.SelectCandidate(s.Context(), []preempting.Candidate{best, candidate})
	}
	return false
}

// victims are the UIDs of the pods that a candidate evicts, sorted.
func victims(candidate preempting.Candidate) []string {
	var uids []string
	for _, pod := range candidate.Victims().Pods {
		uids = append(uids, string(pod.UID))
	}
	slices.Sort(uids)
	return uids
}
