package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (g *gen) nodeAffinity(pod *v1.Pod) {
	if g.chance(0.2) {
		pod.Spec.NodeSelector = map[string]string{}
		if g.chance(0.6) {
			pod.Spec.NodeSelector[zoneKey] = pick(g, zones)
		}
		if g.chance(0.5) || len(pod.Spec.NodeSelector) == 0 {
			pod.Spec.NodeSelector["disk"] = pick(g, []string{"ssd", "hdd"})
		}
	}
	affinity := &v1.NodeAffinity{}
	if g.chance(0.57) {
		required := &v1.NodeSelector{}
		for range g.between(1, 2) {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, g.nodeTerm())
		}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	if g.chance(0.65) {
		for range g.between(1, 3) {
			term := g.nodeTerm()
			if !g.wide {
				term.MatchFields = nil
			}
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: int32(g.between(1, 100)), Preference: term})
		}
	}
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil || affinity.PreferredDuringSchedulingIgnoredDuringExecution != nil {
		affinityOf(pod).NodeAffinity = affinity
	}
}

func affinityOf(pod *v1.Pod) *v1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	return pod.Spec.Affinity
}

func (g *gen) nodeTerm() v1.NodeSelectorTerm {
	var term v1.NodeSelectorTerm
	if g.chance(0.12) {
		return term
	}
	if g.chance(0.92) {
		for range g.between(1, 2) {
			term.MatchExpressions = append(term.MatchExpressions, g.nodeRequirement())
		}
	}
	if g.chance(0.1) || len(term.MatchExpressions) == 0 {
		requirement := v1.NodeSelectorRequirement{Key: "metadata.name", Operator: pick(g, []v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn}), Values: []string{g.nodeName()}}
		if g.rarely(0.15) {
			requirement.Values = []string{"absent"}
		}
		term.MatchFields = append(term.MatchFields, requirement)
	}
	return term
}

func (g *gen) nodeRequirement() v1.NodeSelectorRequirement {
	values := map[string][]string{
		"disk": {"ssd", "hdd"}, "gen": {"1", "2", "3", "4", "5", "6", "7", "8"}, "missing": {"x"}, zoneKey: zones,
	}
	key := pick(g, []string{"disk", "gen", "missing", zoneKey})
	requirement := v1.NodeSelectorRequirement{Key: key, Operator: pick(g, []v1.NodeSelectorOperator{
		v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist})}
	if key == "gen" && g.chance(0.33) {
		requirement.Operator = pick(g, []v1.NodeSelectorOperator{v1.NodeSelectorOpGt, v1.NodeSelectorOpLt})
		requirement.Values = []string{pick(g, values[key])}
		if g.rarely(0.1) {
			requirement.Values = []string{"0"}
		}
		return requirement
	}
	if requirement.Operator == v1.NodeSelectorOpIn || requirement.Operator == v1.NodeSelectorOpNotIn {
		requirement.Values = some(g, values[key], g.between(1, 2))
	}
	return requirement
}

// labelSelector selects pods, mostly by app.
func (g *gen) labelSelector() *metav1.LabelSelector {
	if g.rarely(0.04) {
		return &metav1.LabelSelector{}
	}
	selector := &metav1.LabelSelector{}
	if g.chance(0.6) {
		selector.MatchLabels = map[string]string{"app": pick(g, apps)}
	}
	if g.chance(0.4) || selector.MatchLabels == nil {
		selector.MatchExpressions = append(selector.MatchExpressions, g.labelRequirement())
	}
	return selector
}

func (g *gen) labelRequirement() metav1.LabelSelectorRequirement {
	values := map[string][]string{"app": apps, "tier": tiers, "missing": {"x"}}
	key := pick(g, []string{"app", "tier", "missing"})
	requirement := metav1.LabelSelectorRequirement{Key: key, Operator: pick(g, []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist})}
	if requirement.Operator == metav1.LabelSelectorOpIn || requirement.Operator == metav1.LabelSelectorOpNotIn {
		requirement.Values = some(g, values[key], g.between(1, 2))
	}
	return requirement
}

func (g *gen) podAffinity(pod *v1.Pod) {
	term := func() v1.PodAffinityTerm { return g.podTerm(pod) }
	weighted := func() []v1.WeightedPodAffinityTerm {
		var terms []v1.WeightedPodAffinityTerm
		for range g.between(1, 2) {
			terms = append(terms, v1.WeightedPodAffinityTerm{Weight: int32(g.between(1, 100)), PodAffinityTerm: term()})
		}
		return terms
	}
	required := func() []v1.PodAffinityTerm {
		terms := []v1.PodAffinityTerm{term()}
		if g.rarely(0.2) {
			terms = append(terms, term())
		}
		return terms
	}
	likely := 0.24
	if pod.Spec.NodeName != "" {
		likely = 0.12
	}
	affinity, anti := &v1.PodAffinity{}, &v1.PodAntiAffinity{}
	if g.chance(likely) {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = required()
	}
	if g.chance(likely) {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = weighted()
	}
	if g.chance(likely) {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = required()
	}
	if g.chance(likely) {
		anti.PreferredDuringSchedulingIgnoredDuringExecution = weighted()
	}
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil || affinity.PreferredDuringSchedulingIgnoredDuringExecution != nil {
		affinityOf(pod).PodAffinity = affinity
	}
	if anti.RequiredDuringSchedulingIgnoredDuringExecution != nil || anti.PreferredDuringSchedulingIgnoredDuringExecution != nil {
		affinityOf(pod).PodAntiAffinity = anti
	}
}

func (g *gen) podTerm(pod *v1.Pod) v1.PodAffinityTerm {
	term := v1.PodAffinityTerm{LabelSelector: g.labelSelector(), TopologyKey: pick(g, []string{hostnameKey, zoneKey, regionKey})}
	if g.chance(0.2) {
		term.Namespaces = some(g, namespaces, g.between(1, 2))
	}
	if g.chance(0.13) {
		term.NamespaceSelector = pick(g, []*metav1.LabelSelector{
			{}, {MatchLabels: map[string]string{"env": "prod"}},
			{MatchLabels: map[string]string{"kubernetes.io/metadata.name": pick(g, namespaces)}},
		}).DeepCopy()
		if g.rarely(0.3) {
			term.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		}
	}
	if g.rarely(0.15) {
		g.labelKeys(pod, &term)
	}
	if g.rarely(0.05) {
		term.TopologyKey = "disk"
	}
	if g.rarely(0.04) {
		term.LabelSelector = nil
	}
	return term
}

// labelKeys sets matchLabelKeys or mismatchLabelKeys the way the API server
// stores them: merged into the selector when the pod was created.
func (g *gen) labelKeys(pod *v1.Pod, term *v1.PodAffinityTerm) {
	key := pick(g, []string{"tier", "version"})
	operator := metav1.LabelSelectorOpIn
	if g.chance(0.6) {
		term.MatchLabelKeys = []string{key}
	} else {
		term.MismatchLabelKeys, operator = []string{key}, metav1.LabelSelectorOpNotIn
	}
	if value, ok := pod.Labels[key]; ok {
		term.LabelSelector.MatchExpressions = append(term.LabelSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
	}
}

func (g *gen) spread(pod *v1.Pod) {
	if !g.chance(0.85) {
		return
	}
	keys := some(g, []string{zoneKey, hostnameKey}, g.between(1, 2))
	if g.chance(0.35) && len(keys) == 2 {
		keys = keys[:1]
	}
	if g.rarely(0.15) {
		keys = append(keys, regionKey)
	}
	for i, key := range keys {
		constraint := v1.TopologySpreadConstraint{
			MaxSkew: int32(g.between(1, 3)), TopologyKey: key,
			WhenUnsatisfiable: pick(g, []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}),
		}
		constraint.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
		if g.chance(0.25) {
			constraint.LabelSelector = g.labelSelector()
		}
		if g.chance(0.2) {
			constraint.MatchLabelKeys = []string{"tier"}
			value, ok := pod.Labels["tier"]
			if ok && g.rarely(0.5) {
				constraint.LabelSelector.MatchExpressions = append(constraint.LabelSelector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
			}
		}
		if constraint.WhenUnsatisfiable == v1.DoNotSchedule && g.chance(0.4) {
			constraint.MinDomains = ptr(int32(g.between(1, 4)))
		}
		if g.chance(0.3) {
			constraint.NodeAffinityPolicy = ptr(pick(g, []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore}))
		}
		if g.chance(0.3) {
			constraint.NodeTaintsPolicy = ptr(pick(g, []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore}))
		}
		if g.rarely(0.1) {
			constraint.MaxSkew = 5
		}
		if g.rarely(0.04) {
			constraint.LabelSelector, constraint.MatchLabelKeys = nil, nil
		}
		if i > 0 && g.rarely(0.05) {
			constraint.TopologyKey = fmt.Sprintf("absent-%d", i)
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, constraint)
	}
}
