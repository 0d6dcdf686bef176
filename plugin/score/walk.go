package score

import (
	"encoding/json"
	"math"

	fwk "k8s.io/kube-scheduler/framework"
)

// farthest is how many times as many nodes as were feasible are asked about ahead at most: beyond, asking afterwards about the few costs less.
const farthest = 3

// walk follows kube-scheduler along its list of nodes. In large clusters it looks for some feasible nodes only, and begins where it ended for
// the pod before: what it will find can be told before it has looked.
type walk struct {
	*roll
	// Where the first feasible node was, how far that was from the one before it, and how far the last one was from the first.
	first, advance, span int
	// How many were feasible: 0 as long as nothing is known.
	feasible int
	// The places of the nodes that are feasible now; empty if one of them is not known.
	places []int
}

// roll is a list of nodes.
type roll struct {
	list    []fwk.NodeInfo
	names   []string
	placeOf map[string]int
	// The names as JSON, each with a comma behind it, and where each ends.
	text []byte
	ends []int
}

// stretch is a part of a roll, which may go on at its beginning.
type stretch struct {
	*roll
	from, count int
}

// meet takes in the nodes that there are. kube-scheduler makes a new list only when nodes come or go.
func (w *walk) meet(nodes []fwk.NodeInfo) {
	if w.roll != nil && len(nodes) == len(w.list) && (len(nodes) == 0 || &nodes[0] == &w.list[0]) {
		return
	}
	*w = walk{roll: newRoll(nodes)}
}

func newRoll(nodes []fwk.NodeInfo) *roll {
	r := &roll{list: nodes, placeOf: make(map[string]int, len(nodes))}
	for place, node := range nodes {
		name := node.Node().Name
		// A string can always be written.
		quoted, _ := json.Marshal(name)
		r.text = append(append(r.text, quoted...), ',')
		r.names, r.ends, r.placeOf[name] = append(r.names, name), append(r.ends, len(r.text)), place
	}
	return r
}

// found takes in which nodes were feasible.
func (w *walk) found(nodes []fwk.NodeInfo) {
	w.places = w.places[:0]
	if w.roll == nil || len(nodes) == 0 {
		return
	}
	all := len(w.names)
	least, most := 0, 0
	for _, node := range nodes {
		place, known := w.placeOf[node.Node().Name]
		if !known {
			*w = walk{roll: w.roll}
			return
		}
		w.places = append(w.places, place)
		// They are found side by side: one may lie a little before the one that was found first.
		distance := (place-w.places[0]+all+all/2)%all - all/2
		least, most = min(least, distance), max(most, distance)
	}
	first := (w.places[0] + least + all) % all
	advance := len(nodes)
	if w.feasible > 0 {
		advance = (first - w.first + all) % all
	}
	w.first, w.advance, w.feasible, w.span = first, advance, len(nodes), most-least+1
}

// ahead gives the nodes that will probably be looked at next; none if that cannot be told, or if it would be too many.
func (w *walk) ahead() (stretch, bool) {
	if w.roll == nil || w.feasible == 0 {
		return stretch{}, false
	}
	all := len(w.names)
	// Nodes are looked at in pieces of about this size, several at a time.
	slack := int(math.Sqrt(float64(all)))
	from := max(w.feasible, w.advance-slack)
	count := max(w.feasible, w.advance) - from + w.span + slack
	if count >= all {
		from, count = 0, all
	}
	if count > farthest*w.feasible+2*slack {
		return stretch{}, false
	}
	return stretch{w.roll, (w.first + from) % all, count}, true
}

// within gives where in the stretch the node at a place of the list is: below its count if it is in it.
func (s stretch) within(place int) int {
	if place -= s.from; place < 0 {
		place += len(s.names)
	}
	return place
}

func (s stretch) len() int { return s.count }

// appendJSON appends the names as an array.
func (s stretch) appendJSON(text []byte) []byte {
	text = append(text, '[')
	end := min(s.from+s.count, len(s.names))
	text = append(text, s.text[s.begin(s.from):s.begin(end)]...)
	text = append(text, s.text[:s.begin(s.from+s.count-end)]...)
	return append(text[:len(text)-1], ']')
}

func (r *roll) begin(place int) int {
	if place == 0 {
		return 0
	}
	return r.ends[place-1]
}
