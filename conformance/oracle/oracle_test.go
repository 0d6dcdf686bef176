package oracle

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func testNode(name, cpu string) *v1.Node {
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10")}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}, Status: v1.NodeStatus{Capacity: amounts, Allocatable: amounts}}
}

func testPod(name, node, cpu string, priority int32) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{NodeName: node, Priority: &priority, SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{
			Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}},
		Status: v1.PodStatus{StartTime: &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}
}

func TestNodesAreAcceptedRefusedAndScored(t *testing.T) {
	c := &Case{Name: "t", Objects: Objects{Nodes: []*v1.Node{testNode("small", "1"), testNode("large", "8"), testNode("tainted", "8")}}, Pod: testPod("p", "", "2", 0)}
	c.Objects.Nodes[2].Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
	expect, err := Decide(c)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"large"}; !reflect.DeepEqual(expect.Feasible, want) {
		t.Errorf("feasible: want %v, got %v", want, expect.Feasible)
	}
	want := map[string]Rejection{
		"small":   {"NodeResourcesFit", "UnschedulableAndUnresolvable", []string{"Insufficient cpu"}},
		"tainted": {"TaintToleration", "UnschedulableAndUnresolvable", []string{"node(s) had untolerated taint(s)"}},
	}
	if !reflect.DeepEqual(expect.Rejected, want) {
		t.Errorf("rejected: want %v, got %v", want, expect.Rejected)
	}
	if expect.Totals["large"] == 0 || expect.Scores["TaintToleration"]["large"] != 300 {
		t.Errorf("want TaintToleration to give 100 x 3, got %v", expect.Scores)
	}
}

func TestPreemptionNamesTheNodeAndItsVictims(t *testing.T) {
	c := &Case{Name: "t", Objects: Objects{
		Nodes: []*v1.Node{testNode("a", "4"), testNode("b", "4")},
		Pods:  []*v1.Pod{testPod("low", "a", "3", 1), testPod("high", "b", "3", 50)},
	}, Pod: testPod("p", "", "2", 100)}
	expect, err := Decide(c)
	if err != nil {
		t.Fatal(err)
	}
	want := &Preemption{Nominated: "a", Victims: []string{"default/low"}}
	if !reflect.DeepEqual(expect.Preemption, want) {
		t.Errorf("want %v, got %v", want, expect.Preemption)
	}
}

func TestPreemptionByChanceIsReported(t *testing.T) {
	c := &Case{Name: "t", Objects: Objects{
		Nodes: []*v1.Node{testNode("a", "4"), testNode("b", "4")},
		Pods:  []*v1.Pod{testPod("one", "a", "3", 1), testPod("two", "b", "3", 1)},
	}, Pod: testPod("p", "", "2", 100)}
	if err := Answer(c); !errors.Is(err, ErrUnstable) {
		t.Errorf("want %v, got %v", ErrUnstable, err)
	}
}

func TestGatedPodIsHeldBack(t *testing.T) {
	c := &Case{Name: "t", Objects: Objects{Nodes: []*v1.Node{testNode("a", "4")}}, Pod: testPod("p", "", "1", 0)}
	c.Pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
	expect, err := Decide(c)
	if err != nil {
		t.Fatal(err)
	}
	if expect.PreEnqueue == nil || expect.PreEnqueue.Plugin != "SchedulingGates" || len(expect.Feasible) > 0 {
		t.Errorf("want SchedulingGates to hold the pod back, got %+v", expect)
	}
}

func TestConfigurationErrorsAreReported(t *testing.T) {
	c := &Case{Name: "t", Config: json.RawMessage(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration","nonsense":1}`), Objects: Objects{Nodes: []*v1.Node{testNode("a", "4")}}, Pod: testPod("p", "", "1", 0)}
	if _, err := Decide(c); err == nil {
		t.Error("want an error for an unknown field, got none")
	}
}

func TestSequenceCarriesBindingsAndNominations(t *testing.T) {
	objects := &Objects{Nodes: []*v1.Node{testNode("a", "4")}, Pods: []*v1.Pod{testPod("low", "a", "3", 1)}}
	session, err := NewSession(nil, objects)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	decide := func(pod *v1.Pod) (*Expect, *v1.Pod) {
		t.Helper()
		attempt, err := session.Try(pod)
		if err != nil {
			t.Fatal(err)
		}
		waiting, err := session.Commit(attempt)
		if err != nil {
			t.Fatal(err)
		}
		return attempt.Expect, waiting
	}
	first, waiting := decide(testPod("important", "", "3", 100))
	if first.Preemption == nil || waiting == nil {
		t.Fatalf("want a preemption, got %+v", first)
	}
	if between, _ := decide(testPod("modest", "", "2", 0)); len(between.Feasible) > 0 {
		t.Errorf("want the cleared node kept for the nominated pod, got %+v", between)
	}
	if second, _ := decide(waiting); second.Selected != "a" {
		t.Errorf("want the nominated pod placed on a, got %+v", second)
	}
	if last, _ := decide(testPod("late", "", "2", 0)); len(last.Feasible) > 0 {
		t.Errorf("want the node taken by the placed pod, got %+v", last)
	}
}

// sample is the published set of cases, where a checkout has it beside it.
const sample = "../../../shared/conformance/sample.jsonl.gz"

func TestSampleIsReproduced(t *testing.T) {
	if _, err := os.Stat(sample); err != nil {
		t.Skip("no sample of published cases beside this checkout")
	}
	err := ReadCases(sample, func(line int, c *Case) error {
		// Neighbouring lines are of different families; 16 shares no factor with
		// their number, so that all families are met.
		if line%16 != 0 {
			return nil
		}
		got, err := Decide(c)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(got, c.Expect) {
			t.Errorf("%s: want %+v, got %+v", c.Name, c.Expect, got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
