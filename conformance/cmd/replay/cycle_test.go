package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"plimsoll.dev/conformance/cmd/stock-sim/stock"
	"plimsoll.dev/conformance/generate"
	"plimsoll.dev/conformance/oracle"
)

// TestCycleDecidesAsOracleAndStockLoopDo has two witnesses: the oracle, which
// builds its snapshot anew, and kube-scheduler's own loop over ours.
func TestCycleDecidesAsOracleAndStockLoopDo(t *testing.T) {
	families := []string{"resources", "nodeaffinity", "taints", "podaffinity", "spread", "spread-policies", "defaultspread", "ports", "preemption", "preemption-mixed", "nominated"}
	placed, preempted := 0, 0
	for _, family := range families {
		for seed := range uint64(8) {
			c, err := generate.Case(family, 100+seed)
			if err != nil {
				t.Fatal(err)
			}
			want, err := oracle.Decide(c)
			if err != nil {
				continue
			}
			r := loaded(t, c)
			cycle, err := runCycle(r.scheduler, r.pods[string(c.Pod.UID)])
			if err != nil {
				t.Errorf("%s: %v", c.Name, err)
				continue
			}
			totals := map[string]int64{}
			for _, node := range cycle.scores {
				totals[node.Name] = node.TotalScore
			}
			if !maps.Equal(totals, want.Totals) {
				t.Errorf("%s: want the totals %v, got %v", c.Name, want.Totals, totals)
			}
			checkStockLoop(t, c.Name, r, cycle)
			if len(totals) > 0 {
				placed++
			} else if checkPreemption(t, c.Name, r, cycle, want) {
				preempted++
			}
			r.close()
		}
	}
	if placed < 20 || preempted < 3 {
		t.Errorf("want at least 20 cases that place and 3 that preempt, got %d and %d", placed, preempted)
	}
}

// loaded is a replay that has seen the objects of a case.
func loaded(t *testing.T, c *oracle.Case) *replay {
	t.Helper()
	r, err := newReplay(c.Name, &report{out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	at := 0.0
	feed := func(e *event) {
		e.At = &at
		if err := r.apply(0, e); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	for _, node := range c.Objects.Nodes {
		feed(&event{Node: node.DeepCopy()})
	}
	var others []runtime.Object
	for _, object := range c.Objects.Namespaces {
		others = append(others, object)
	}
	for _, object := range c.Objects.Services {
		others = append(others, object)
	}
	for _, object := range c.Objects.ReplicaSets {
		others = append(others, object)
	}
	for _, object := range c.Objects.StatefulSets {
		others = append(others, object)
	}
	for _, object := range c.Objects.ReplicationControllers {
		others = append(others, object)
	}
	for _, object := range c.Objects.PodDisruptionBudgets {
		others = append(others, object)
	}
	for _, object := range others {
		feed(&event{Object: encoded(t, object)})
	}
	for _, pod := range append(slices.Clone(c.Objects.Pods), c.Pod) {
		feed(&event{Pod: pod.DeepCopy()})
	}
	return r
}

func encoded(t *testing.T, object runtime.Object) json.RawMessage {
	t.Helper()
	object = object.DeepCopyObject()
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		t.Fatal(err)
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func checkStockLoop(t *testing.T, name string, r *replay, c *cycle) {
	t.Helper()
	info, err := framework.NewPodInfo(c.pod)
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.scheduler.Schedule(&framework.QueuedPodInfo{PodInfo: info})
	if errors.Is(err, stock.ErrFitsNowhere) {
		if len(c.feasible) > 0 {
			t.Errorf("%s: the stock loop finds no node, the cycle %v", name, c.best())
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if result.FeasibleNodes != len(c.feasible) || !slices.Contains(c.best(), result.SuggestedHost) {
		t.Errorf("%s: the stock loop takes %s of %d, the cycle one of %v of %d", name, result.SuggestedHost, result.FeasibleNodes, c.best(), len(c.feasible))
	}
}

// checkPreemption says whether there was one.
func checkPreemption(t *testing.T, name string, r *replay, c *cycle, want *oracle.Expect) bool {
	t.Helper()
	if want.Preemption == nil {
		return false
	}
	p := &preemption{Node: want.Preemption.Nominated}
	for uid, pod := range r.pods {
		if slices.Contains(want.Preemption.Victims, pod.Namespace+"/"+pod.Name) {
			p.Victims = append(p.Victims, uid)
		}
	}
	stocks, err := r.checkPreemption(c, p)
	if err != nil || stocks != "" {
		t.Errorf("%s: want %v, got %s, %v", name, want.Preemption, stocks, err)
	}
	return true
}
