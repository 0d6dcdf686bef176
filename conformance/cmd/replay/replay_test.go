package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func node(name string, more string) string {
	return fmt.Sprintf(`{"at":0,"node":{"metadata":{"name":%q},"spec":{%s},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}}`, name, more)
}

func pod(at int, uid, cpu string, priority int) string {
	return fmt.Sprintf(`{"at":%d,"pod":{"metadata":{"name":%q,"uid":%q},"spec":{"priority":%d,"containers":[{"name":"c","resources":{"requests":{"cpu":%q,"memory":"1Gi"}}}]}}}`,
		at, uid, uid, priority, cpu)
}

func place(at int, uid, node string, feasible, ties int) string {
	return fmt.Sprintf(`{"at":%d,"place":{"uid":%q,"node":%q,"feasible":%d,"ties":%d}}`, at, uid, node, feasible, ties)
}

// spread has three equal nodes and three pods: least-allocated scoring gives
// the second pod one of the two empty nodes, and the third one the last.
func spread() []string {
	return []string{
		node("a", ""), node("b", ""), node("c", ""),
		pod(1, "one", "1", 0), place(1, "one", "b", 3, 3),
		pod(2, "two", "1", 0), place(2, "two", "c", 3, 2),
		pod(3, "three", "1", 0), place(3, "three", "a", 3, 1),
	}
}

// eviction has a node that a pod of priority 1 fills and one of priority 100.
func eviction() []string {
	return []string{
		node("a", ""),
		pod(1, "low", "3", 1), place(1, "low", "a", 1, 1),
		pod(2, "high", "3", 100),
		`{"at":2,"preempt":{"uid":"high","node":"a","victims":["low"]}}`,
		`{"at":3,"wait":{"uid":"high"}}`,
		`{"at":4,"podGone":"low"}`,
		place(4, "high", "a", 1, 1),
	}
}

func replayed(t *testing.T, lines []string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(nil, strings.NewReader(strings.Join(lines, "\n")), &out)
	return out.String(), err
}

func TestTimelinesThatStockWouldWriteAgree(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"equal nodes are filled in turn", spread(), "3 placements agree, 0 differ\n"},
		{"a preemption, its wait and its end", eviction(), "1 waits and 1 preemptions agree\n2 placements agree, 0 differ\n"},
		{"a pod that ends gives its room back", []string{
			node("a", ""), pod(1, "one", "3", 0), place(1, "one", "a", 1, 1),
			pod(2, "two", "3", 0), `{"at":2,"wait":{"uid":"two"}}`, `{"at":3,"podGone":"one"}`, place(3, "two", "a", 1, 1),
		}, "1 waits and 0 preemptions agree\n2 placements agree, 0 differ\n"},
		{"a cordoned node, and one that left, are not feasible", []string{
			node("a", ""), node("b", ""), node("c", ""), node("b", `"unschedulable":true`), `{"at":0,"nodeGone":"c"}`,
			pod(1, "one", "1", 0), place(1, "one", "a", 1, 1),
		}, "1 placements agree, 0 differ\n"},
		{"a node leaves before its pods", []string{
			node("a", ""), node("b", ""), pod(1, "one", "1", 0), place(1, "one", "a", 2, 2),
			`{"at":2,"nodeGone":"a"}`, `{"at":2,"podGone":"one"}`, pod(3, "two", "1", 0), place(3, "two", "b", 1, 1),
		}, "2 placements agree, 0 differ\n"},
		{"a bound pod takes its room unchecked", []string{
			node("a", ""), node("b", ""), strings.Replace(pod(1, "one", "1", 0), `"spec":{`, `"spec":{"nodeName":"a",`, 1),
			pod(2, "two", "1", 0), place(2, "two", "b", 2, 1),
		}, "1 placements agree, 0 differ\n"},
		{"a service makes the default spread count", []string{
			`{"at":0,"object":{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"default"},"spec":{"selector":{"app":"x"}}}}`,
			labelled(node("a", "")), labelled(node("b", "")), app(strings.Replace(pod(1, "one", "0", 0), `"spec":{`, `"spec":{"nodeName":"a",`, 1)),
			// Without the service node a, with far more room, would have won.
			strings.Replace(strings.Replace(pod(1, "load", "2", 0), `"spec":{`, `"spec":{"nodeName":"b",`, 1), "1Gi", "4Gi", 1),
			app(pod(2, "two", "100m", 0)), place(2, "two", "b", 2, 1),
		}, "1 placements agree, 0 differ\n"},
	} {
		out, err := replayed(t, test.lines)
		if err != nil || out != test.want {
			t.Errorf("%s: want %q, got %q, %v", test.name, test.want, out, err)
		}
	}
}

func labelled(line string) string {
	name := line[strings.Index(line, `"name":"`)+8:][:1]
	return strings.Replace(line, `"metadata":{`, `"metadata":{"labels":{"kubernetes.io/hostname":"`+name+`","topology.kubernetes.io/zone":"z`+name+`"},`, 1)
}

func app(line string) string {
	return strings.Replace(line, `"metadata":{`, `"metadata":{"labels":{"app":"x"},`, 1)
}

func TestEveryKindOfDifferenceIsFound(t *testing.T) {
	change := func(lines []string, at int, to ...string) []string {
		return append(append(append([]string{}, lines[:at]...), to...), lines[at+1:]...)
	}
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a wrong count of feasible nodes", change(spread(), 4, place(1, "one", "b", 2, 3)), "3 feasible, 3 share"},
		{"a wrong count of ties", change(spread(), 4, place(1, "one", "b", 3, 1)), "3 feasible, 3 share"},
		{"a node that is not the best", change(spread(), 6, place(2, "two", "b", 3, 2))[:7], "stock:    node a, c; 3 feasible, 2 share"},
		{"a node that is not feasible", append(spread(), pod(4, "four", "3.5", 0), place(4, "four", "a", 1, 1)), "a is refused by NodeResourcesFit: Insufficient cpu"},
		{"a wait where a node is feasible", append(spread(), pod(4, "four", "1", 0), `{"at":4,"wait":{"uid":"four"}}`), "timeline: wait"},
		{"a wait where preemption helps", change(eviction(), 4, `{"at":2,"wait":{"uid":"high"}}`)[:5], "stock:    preempt [low] on node a"},
		{"no victims", change(eviction(), 4, `{"at":2,"preempt":{"uid":"high","node":"a","victims":[]}}`)[:5], "stock:    preempt [low] on node a"},
		{"a preemption where a node is feasible", change(eviction(), 4, node2(), `{"at":2,"preempt":{"uid":"high","node":"a","victims":["low"]}}`)[:6], "stock:    node z"},
	} {
		out, err := replayed(t, test.lines)
		if !errors.Is(err, errDiffers) || !strings.Contains(out, test.want) || !strings.Contains(out, " 1 differ\n") {
			t.Errorf("%s: want one difference with %q, got %v\n%s", test.name, test.want, err, out)
		}
	}
}

func node2() string { return strings.Replace(node("z", ""), `"at":0`, `"at":2`, 1) }

func TestReplayGoesOnFromTheTimelinesState(t *testing.T) {
	lines := spread()
	lines[6] = place(2, "two", "b", 3, 2)
	lines[8] = place(3, "three", "a", 3, 2)
	out, err := replayed(t, lines)
	if !errors.Is(err, errDiffers) || !strings.HasSuffix(out, "2 placements agree, 1 differ\n") {
		t.Errorf("want the third pod judged with two pods on node b, got %v\n%s", err, out)
	}
}

func TestEitherOfTwoEqualCandidatesMayBePreempted(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		lines := []string{node("a", ""), node("b", ""),
			strings.Replace(pod(1, "on-a", "3", 1), `"spec":{`, `"spec":{"nodeName":"a",`, 1),
			strings.Replace(pod(1, "on-b", "3", 1), `"spec":{`, `"spec":{"nodeName":"b",`, 1),
			pod(2, "high", "3", 100),
			fmt.Sprintf(`{"at":2,"preempt":{"uid":"high","node":%q,"victims":["on-%s"]}}`, name, name)}
		if out, err := replayed(t, lines); err != nil {
			t.Errorf("node %s: %v\n%s", name, err, out)
		}
		// Of two pods of less priority, that of the least goes.
		lines[2] = strings.Replace(lines[2], `"priority":1`, `"priority":2`, 1)
		if _, err := replayed(t, lines); errors.Is(err, errDiffers) != (name == "a") {
			t.Errorf("node %s with the more important pod on a: %v", name, err)
		}
	}
}

func TestMalformedTimelinesAreErrorsThatNameTheLine(t *testing.T) {
	for _, bad := range []string{
		`nonsense`, `{}`, `{"at":1}`, `{"nodeGone":"a"}`, `{"at":1,"podGone":"absent"}`, `{"at":1,"nodeGone":"absent"}`,
		`{"at":1,"wait":{"uid":"absent"}}`, `{"at":1,"wait":null}`, `{"at":-1,"nodeGone":"a"}`, `{"at":1,"nodeGone":"a","podGone":"b"}`,
		`{"at":1,"surprise":1}`, `{"at":1,"place":{"uid":"p","node":"a"}}`, `{"at":1,"place":{"uid":"p","node":"a","feasible":1,"ties":1,"x":1}}`,
		place(1, "p", "absent", 1, 1), `{"at":1,"pod":{"metadata":{"name":"p"}}}`, pod(1, "p", "1", 0), `{"at":1,"node":{}}`,
		`{"at":1,"preempt":{"uid":"p","node":"a","victims":["p"]}}`, `{"at":1,"object":{"apiVersion":"v1","kind":"ConfigMap"}}`, `{"at":1,"object":{}}`,
	} {
		_, err := replayed(t, []string{node("a", ""), pod(0, "p", "1", 0), bad})
		if err == nil || errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "standard input:3: ") {
			t.Errorf("%s: want an error that names line 3, got %v", bad, err)
		}
	}
}

func TestFilesAreTimelinesOfTheirOwnAndGzipIsSeen(t *testing.T) {
	text := []byte(strings.Join(spread(), "\n"))
	plain, packed := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "packed")
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	if _, err := writer.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	for path, data := range map[string][]byte{plain: text, packed: buffer.Bytes(), cut: buffer.Bytes()[:buffer.Len()/2]} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run([]string{plain, packed}, nil, &out); err != nil || out.String() != "6 placements agree, 0 differ\n" {
		t.Errorf("want 6 placements, got %q, %v", out.String(), err)
	}
	if err := run([]string{cut}, nil, &out); err == nil {
		t.Error("want an error for a truncated file, got none")
	}
}
