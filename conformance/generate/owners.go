package generate

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// services makes three services that select pods by app.
func (g *gen) services() {
	if len(g.objects.Services) > 0 {
		return
	}
	for i := range 3 {
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i), Namespace: pick(g, namespaces)}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": pick(g, apps)}}}
		if g.rarely(0.2) {
			service.Spec.Selector["tier"] = pick(g, tiers)
		}
		if g.rarely(0.05) {
			service.Spec.Selector = nil
		}
		g.objects.Services = append(g.objects.Services, service)
	}
}

// owner has a controller own the pod; its selector then counts for default
// spreading.
func (g *gen) owner(pod *v1.Pod) {
	if !g.chance(0.5) {
		return
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
	if g.rarely(0.2) {
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{g.labelRequirement()}
	}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}}
	meta := metav1.ObjectMeta{Name: "rs", Namespace: pod.Namespace, UID: "rs1"}
	reference := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs1", Controller: ptr(true)}
	switch {
	case g.rarely(0.2):
		reference.Kind = "StatefulSet"
		g.objects.StatefulSets = append(g.objects.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}})
	case g.rarely(0.2):
		reference.APIVersion, reference.Kind = "v1", "ReplicationController"
		g.objects.ReplicationControllers = append(g.objects.ReplicationControllers, &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: selector.MatchLabels, Template: &template}})
	default:
		g.objects.ReplicaSets = append(g.objects.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}})
	}
	pod.OwnerReferences = []metav1.OwnerReference{reference}
}

func (g *gen) budgets() {
	if !g.chance(0.69) {
		return
	}
	for i := range 3 {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pdb%d", i), Namespace: pick(g, namespaces)},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, apps)}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(g.IntN(2))},
		}
		if g.rarely(0.15) {
			budget.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{g.labelRequirement()}}
		}
		if g.rarely(0.1) {
			budget.Spec.Selector = pick(g, []*metav1.LabelSelector{nil, {}})
		}
		if g.rarely(0.15) && len(g.objects.Pods) > 0 {
			budget.Status.DisruptedPods = map[string]metav1.Time{pick(g, g.objects.Pods).Name: {Time: g.moment()}}
		}
		g.objects.PodDisruptionBudgets = append(g.objects.PodDisruptionBudgets, budget)
	}
}
