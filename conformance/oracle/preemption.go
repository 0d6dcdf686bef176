package oracle

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// picks is how often the best candidate is chosen again to see whether chance
// has a part in it: kube-scheduler breaks the last tie by map order.
const picks = 24

// dryPreemption decides as DefaultPreemption does and keeps the victims
// instead of evicting them.
type dryPreemption struct {
	*defaultpreemption.DefaultPreemption
	chosen   *Preemption
	unstable bool
}

var _ fwk.PostFilterPlugin = &dryPreemption{}

// PostFilter finds the candidate that stock preemption would act upon.
func (p *dryPreemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	evaluator := p.Evaluator
	pod, err := evaluator.PodLister.Pods(pod.Namespace).Get(pod.Name)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if eligible, reason := evaluator.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !eligible {
		return nil, fwk.NewStatus(fwk.Unschedulable, reason)
	}
	nodes, err := statuses.NodesForStatusCode(evaluator.Handler.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	none := framework.NewPostFilterResultWithNominatedNode("")
	if len(nodes) == 0 {
		return none, fwk.NewStatus(fwk.Unschedulable, "no node can be helped by preemption")
	}
	budgets, err := evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, fwk.AsStatus(err)
	}

	offset, wanted := evaluator.GetOffsetAndNumCandidates(int32(len(nodes)))
	candidates, _, err := evaluator.DryRunPreemption(ctx, state, pod, nodes, budgets, offset, wanted)
	if len(candidates) == 0 {
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		return none, fwk.NewStatus(fwk.Unschedulable, "no candidate node for preemption")
	}

	best := evaluator.SelectCandidate(ctx, candidates)
	for range picks {
		if evaluator.SelectCandidate(ctx, candidates).Name() != best.Name() {
			p.unstable = true
		}
	}
	p.chosen = &Preemption{Nominated: best.Name()}
	for _, victim := range best.Victims().Pods {
		p.chosen.Victims = append(p.chosen.Victims, fmt.Sprintf("%s/%s", victim.Namespace, victim.Name))
	}
	slices.Sort(p.chosen.Victims)
	return framework.NewPostFilterResultWithNominatedNode(best.Name()), fwk.NewStatus(fwk.Success)
}
