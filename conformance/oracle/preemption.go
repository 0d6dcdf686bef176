package oracle

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// picks is how often the best candidate is chosen again to see whether chance
// has a part in it: kube-scheduler breaks the last tie by map order.
const picks = 24

// DryPreemption decides as DefaultPreemption does and keeps the victims
// instead of evicting them.
type DryPreemption struct {
	*defaultpreemption.DefaultPreemption
	// Chosen is the last decision, and Victims the pods it names.
	Chosen  *Preemption
	Victims []*v1.Pod
	// checks is how often the choice is repeated to see whether it is stable.
	checks   int
	unstable bool
}

// NewDryPreemption makes the plugin with the arguments of DefaultPreemption.
func NewDryPreemption(ctx context.Context, args runtime.Object, handle fwk.Handle) (*DryPreemption, error) {
	plugin, err := plugins.NewInTreeRegistry()[defaultpreemption.Name](ctx, args, handle)
	if err != nil {
		return nil, err
	}
	stock, ok := plugin.(*defaultpreemption.DefaultPreemption)
	if !ok {
		return nil, fmt.Errorf("DefaultPreemption is a %T", plugin)
	}
	return &DryPreemption{DefaultPreemption: stock}, nil
}

var _ fwk.PostFilterPlugin = &DryPreemption{}

// PostFilter finds the candidate that stock preemption would act upon.
func (p *DryPreemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
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
	for range p.checks {
		if evaluator.SelectCandidate(ctx, candidates).Name() != best.Name() {
			p.unstable = true
		}
	}
	p.Chosen = &Preemption{Nominated: best.Name()}
	p.Victims = best.Victims().Pods
	for _, victim := range p.Victims {
		p.Chosen.Victims = append(p.Chosen.Victims, fmt.Sprintf("%s/%s", victim.Namespace, victim.Name))
	}
	slices.Sort(p.Chosen.Victims)
	return framework.NewPostFilterResultWithNominatedNode(best.Name()), fwk.NewStatus(fwk.Success)
}
