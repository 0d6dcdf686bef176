package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const header = "name,arrival_s,lifetime_s,cpu_milli,memory_bytes\n"

func simulated(t *testing.T, rows string, args ...string) result {
	t.Helper()
	var out bytes.Buffer
	args = append([]string{"-cpu", "4", "-memory", "8Gi"}, args...)
	if err := run(args, strings.NewReader(header+rows), &out); err != nil {
		t.Fatal(err)
	}
	var figures result
	if err := json.Unmarshal(out.Bytes(), &figures); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	return figures
}

func TestHandComputedRuns(t *testing.T) {
	pair := "a,0,,1000,1073741824\nb,0,,1000,1073741824\nc,10,,1000,1073741824\n"
	for _, test := range []struct {
		name, rows          string
		args                []string
		placements, waiting int
		active              float64
	}{
		{"the default spreads", pair, []string{"-nodes", "3"}, 3, 0, 2},
		{"most-allocated packs", pair, []string{"-nodes", "3", "-policy", "most-allocated"}, 3, 0, 1},
		{"a limit stops early", pair, []string{"-nodes", "3", "-limit", "2"}, 2, 0, 2},
		{"a pod that ends empties its node", "a,0,5,1000,0\nb,10,5,1000,0\n", []string{"-nodes", "1"}, 2, 0, 0.5},
		{"a waiting pod starts when another ends", "a,0,10,3000,0\nb,5,10,3000,0\nc,30,5,1000,0\n", []string{"-nodes", "1"}, 3, 0, 20.0 / 30},
		{"an end precedes an arrival of the same second", "a,0,10,3000,0\nb,10,10,3000,0\n", []string{"-nodes", "1"}, 2, 0, 1},
		{"a younger pod does not overtake in the queue", "a,0,10,4000,0\nb,1,,5000,0\nc,2,,1000,0\nd,20,,1000,0\n", []string{"-nodes", "1"}, 2, 2, 0.5},
		{"a node runs no more pods than it may", pair, []string{"-nodes", "1", "-pods", "2"}, 2, 1, 1},
		{"nothing arrives", "", []string{"-nodes", "1"}, 0, 0, 0},
	} {
		got := simulated(t, test.rows, test.args...)
		if got.Placements != test.placements || got.Waiting != test.waiting || got.ActiveNodesMean != test.active {
			t.Errorf("%s: want %d placed, %d waiting, %v active, got %+v", test.name, test.placements, test.waiting, test.active, got)
		}
	}
}

func TestBadInputIsAnErrorThatNamesIt(t *testing.T) {
	for _, test := range []struct {
		input string
		args  []string
		want  string
	}{
		{"", nil, "header"},
		{"name,arrival_s\n", nil, "wrong number of fields"},
		{"name,arrival_s,lifetime_s,cpu_milli,memory\n", nil, "want the columns"},
		{header + "a,0,1,1\n", nil, "line 2"},
		{header + "a,0,1,1,1\na,0,1,1,1\n", nil, `line 3: a second pod named "a"`},
		{header + "a,5,1,1,1\nb,4,1,1,1\n", nil, "line 3: pod \"b\" comes before"},
		{header + "a,-1,1,1,1\n", nil, "line 2: arrival_s"},
		{header + "a,0,NaN,1,1\n", nil, "line 2: lifetime_s"},
		{header + "a,0,1,1.5,1\n", nil, "line 2: cpu_milli"},
		{header + "a,0,1,1,-1\n", nil, "line 2: memory_bytes"},
		{header + ",0,1,1,1\n", nil, "line 2: name"},
		{header, []string{"-policy", "nonsense"}, "no policy"},
		{header, []string{"-cpu", "many"}, "-cpu"},
		{header, []string{"-memory", "0"}, "-memory"},
		{header, []string{"-nodes", "0"}, "-nodes"},
		{header, []string{"arrivals.csv"}, "standard input"},
	} {
		err := run(test.args, strings.NewReader(test.input), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q %q: want an error with %q, got %v", test.input, test.args, test.want, err)
		}
	}
}
