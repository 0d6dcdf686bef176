package score

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

func TestPlacementsAreToldOnceWithTheNextRequest(t *testing.T) {
	server := newServer(t)
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	bench.schedule(t, makePod("a"))
	if asked := server.lastRequest(t); len(asked.Placed)+len(asked.Released) != 0 {
		t.Fatalf("before any placement: %v, %v", asked.Placed, asked.Released)
	}
	bench.reserve(t, makePod("a"), "node-3")
	bench.reserve(t, makePod("b"), "node-1")
	bench.schedule(t, makePod("c"))
	want := []placement{
		{Namespace: "shop", Name: "a", UID: "uid-a", Node: "node-3"},
		{Namespace: "shop", Name: "b", UID: "uid-b", Node: "node-1"},
	}
	if asked := server.lastRequest(t); !slices.Equal(asked.Placed, want) || len(asked.Released) != 0 {
		t.Errorf("placed %v, released %v; want %v", asked.Placed, asked.Released, want)
	}
	bench.unreserve(makePod("b"), "node-1")
	bench.schedule(t, makePod("c"))
	if asked := server.lastRequest(t); len(asked.Placed) != 0 || !slices.Equal(asked.Released, []types.UID{"uid-b"}) {
		t.Errorf("placed %v, released %v; want b released and nothing told twice", asked.Placed, asked.Released)
	}
	bench.schedule(t, makePod("c"))
	if asked := server.lastRequest(t); len(asked.Placed)+len(asked.Released) != 0 {
		t.Errorf("told twice: %v, %v", asked.Placed, asked.Released)
	}
}

func TestWhatAFailedRequestWasToTellIsToldByTheNext(t *testing.T) {
	server := newServer(t)
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	bench.reserve(t, makePod("a"), "node-1")
	bench.reserve(t, makePod("b"), "node-1")
	bench.unreserve(makePod("b"), "node-1")
	server.answers(http.StatusInternalServerError, "")
	bench.schedule(t, makePod("c"))
	server.answersBy(nil)
	bench.reserve(t, makePod("c"), "node-2")
	bench.schedule(t, makePod("d"))
	asked := server.lastRequest(t)
	var placed []string
	for _, placement := range asked.Placed {
		placed = append(placed, placement.Name+" on "+placement.Node)
	}
	if want := []string{"a on node-1", "c on node-2"}; !slices.Equal(placed, want) {
		t.Errorf("placed %v, want %v", placed, want)
	}
	if want := []types.UID{"uid-b"}; !slices.Equal(asked.Released, want) {
		t.Errorf("released %v, want %v", asked.Released, want)
	}
}

func TestOfAPodOnlyTheLastIsTold(t *testing.T) {
	notes := newNotes(testingclock.NewFakePassiveClock(time.Now()))
	notes.place(placement{UID: "a", Node: "node-1"})
	underWay := notes.take()
	notes.release("a")
	notes.giveBack(underWay)
	if told := notes.take(); len(told.placed) != 0 || len(told.released) != 1 {
		t.Errorf("%+v, want a released only", told)
	}

	notes.place(placement{UID: "a", Node: "node-1"})
	notes.release("a")
	underWay = notes.take()
	notes.place(placement{UID: "a", Node: "node-2"})
	notes.giveBack(underWay)
	if told := notes.take(); len(told.placed) != 1 || told.placed[0].Node != "node-2" || len(told.released) != 0 {
		t.Errorf("%+v, want a on node-2 only", told)
	}
}

func TestNotesAreBoundedAndTheNewestStay(t *testing.T) {
	notes := newNotes(testingclock.NewFakePassiveClock(time.Now()))
	const more = 10
	for i := range maxNotes + more {
		notes.place(placement{UID: types.UID(fmt.Sprint("p", i))})
		notes.release(types.UID(fmt.Sprint("r", i)))
	}
	told := notes.take()
	if len(told.placed) != maxNotes || len(told.released) != maxNotes {
		t.Fatalf("%d placed and %d released, want %d of both", len(told.placed), len(told.released), maxNotes)
	}
	if first := told.placed[0].UID; first != types.UID(fmt.Sprint("p", more)) {
		t.Errorf("the oldest that stayed is %s, want p%d", first, more)
	}
	notes.place(placement{UID: "new"})
	notes.giveBack(told)
	again := notes.take()
	if last := again.placed[len(again.placed)-1].UID; len(again.placed) != maxNotes || last != "new" {
		t.Errorf("%d placed, the last is %s; want %d and new", len(again.placed), last, maxNotes)
	}
}

func TestOldNotesAreForgotten(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	notes := newNotes(clock)
	notes.place(placement{UID: "old"})
	notes.release("older")
	clock.SetTime(clock.Now().Add(maxNoteAge))
	notes.place(placement{UID: "new"})
	clock.SetTime(clock.Now().Add(time.Nanosecond))
	if told := notes.take(); len(told.placed) != 1 || told.placed[0].UID != "new" || len(told.released) != 0 {
		t.Errorf("%+v, want the new one only", told)
	}
}
