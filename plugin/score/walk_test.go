package score

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func infos(count int) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, count)
	for i, node := range makeNodes(count) {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		nodes[i] = info
	}
	return nodes
}

// some gives so many nodes from a place on, each so far from the one before.
func some(nodes []fwk.NodeInfo, from, count, step int) []fwk.NodeInfo {
	var found []fwk.NodeInfo
	for i := range count {
		found = append(found, nodes[(from+i*step)%len(nodes)])
	}
	return found
}

func TestTheNodesThatAreLookedAtNextAreTold(t *testing.T) {
	nodes := infos(1000)
	cases := map[string]struct {
		rounds      [][]fwk.NodeInfo
		from, least int
		told        bool
	}{
		"nothing is known":                  {nil, 0, 0, false},
		"all are feasible":                  {[][]fwk.NodeInfo{some(nodes, 0, 100, 1)}, 100, 100, true},
		"round the end":                     {[][]fwk.NodeInfo{some(nodes, 950, 100, 1)}, 50, 100, true},
		"up to the end":                     {[][]fwk.NodeInfo{some(nodes, 900, 100, 1)}, 0, 100, true},
		"every second one":                  {[][]fwk.NodeInfo{some(nodes, 0, 100, 2), some(nodes, 200, 100, 2)}, 400, 200, true},
		"one of many":                       {[][]fwk.NodeInfo{some(nodes, 0, 100, 9)}, 0, 0, false},
		"all of them":                       {[][]fwk.NodeInfo{nodes}, 0, 1000, true},
		"a node that is not known":          {[][]fwk.NodeInfo{some(nodes, 0, 100, 1), infos(1001)[1000:]}, 0, 0, false},
		"the first was not found as first":  {[][]fwk.NodeInfo{append(some(nodes, 3, 97, 1), some(nodes, 0, 3, 1)...)}, 100, 100, true},
		"the first lies before, at the end": {[][]fwk.NodeInfo{append(some(nodes, 0, 97, 1), some(nodes, 997, 3, 1)...)}, 97, 100, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var walk walk
			walk.meet(nodes)
			for _, found := range c.rounds {
				walk.found(found)
			}
			next, told := walk.ahead()
			if told != c.told {
				t.Fatalf("told: %t, want %t", told, c.told)
			}
			if !told {
				return
			}
			for i := range c.least {
				name := nodes[(c.from+i)%len(nodes)].Node().Name
				if next.within(next.placeOf[name]) >= next.len() {
					t.Fatalf("%s is not among the %d nodes from place %d", name, next.count, next.from)
				}
			}
			if most := 2*c.least + 100; next.count > min(most, len(nodes)) {
				t.Errorf("%d nodes are told, want %d at most", next.count, most)
			}
		})
	}
}

func TestNamesOfAStretchAreWrittenAsJSON(t *testing.T) {
	nodes := infos(5)
	nodes[4].SetNode(&v1.Node{})
	nodes[4].Node().Name = `odd "name"`
	roll := newRoll(nodes)
	for from := range 5 {
		for count := 1; count <= 5; count++ {
			var got, want []string
			for i := range count {
				want = append(want, nodes[(from+i)%5].Node().Name)
			}
			text := stretch{roll, from, count}.appendJSON(nil)
			if err := json.Unmarshal(text, &got); err != nil || !slices.Equal(got, want) {
				t.Errorf("%d from %d: %s, want %v", count, from, text, want)
			}
		}
	}
}

func TestAListIsReadAnewOnlyWhenItIsAnother(t *testing.T) {
	nodes := infos(10)
	var walk walk
	walk.meet(nodes)
	walk.found(nodes[:5])
	walk.meet(nodes)
	if _, told := walk.ahead(); !told {
		t.Error("the same list was read anew")
	}
	walk.meet(infos(10))
	if _, told := walk.ahead(); told {
		t.Error("what was found in another list counts")
	}
	walk.meet(nil)
	walk.found(nil)
	if _, told := walk.ahead(); told {
		t.Error("nodes are told where there are none")
	}
}

func TestTheMostImportantPodThatWaitsLongestIsNext(t *testing.T) {
	known := map[string]*v1.Pod{}
	upcoming := newUpcoming(func(_, name string) *v1.Pod { return known[name] })
	comes := func(name string, priority int32) *v1.Pod {
		pod := makePod(name)
		pod.Spec.Priority = &priority
		known[name] = pod
		upcoming.comes(pod)
		return pod
	}
	comes("a", 0)
	comes("b", 0)
	high := comes("high", 10)
	placed := comes("placed", 20)
	comes("a", 0)
	placed.Spec.NodeName = "node-1"
	want := []string{"high", "a", "b"}
	for _, name := range want {
		next := upcoming.next()
		if next == nil || next.Name != name {
			t.Fatalf("next is %v, want %s", next, name)
		}
		upcoming.goes(next.UID)
	}
	upcoming.goes(high.UID)
	if next := upcoming.next(); next != nil {
		t.Errorf("next is %s, want nobody", next.Name)
	}
}

func TestPodsThatAreGoneOrTooManyAreNotNext(t *testing.T) {
	upcoming := newUpcoming(func(string, string) *v1.Pod { return nil })
	pod := makePod("a")
	for i := range maxUpcoming + 10 {
		pod.Name = fmt.Sprint("pod-", i)
		pod.UID = types.UID(pod.Name)
		upcoming.comes(pod)
	}
	if len(upcoming.queue) != maxUpcoming || len(upcoming.known) != maxUpcoming {
		t.Errorf("%d pods are remembered, want %d", len(upcoming.queue), maxUpcoming)
	}
	if upcoming.next() != nil || len(upcoming.queue)+len(upcoming.known) != 0 {
		t.Error("a pod that is gone is next")
	}
}
