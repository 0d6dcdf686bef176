package score

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// Notes that wait at most. A request takes all of them, so that there is one or two unless the server is away.
	maxNotes = 1024
	// After so long the server's watch has shown it what happened, and the pod may even be gone.
	maxNoteAge = 30 * time.Second
)

// placement is a pod that this scheduler has given a node.
type placement struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Node      string    `json:"node"`

	noted time.Time
}

// release is a pod whose placement was undone.
type release struct {
	uid   types.UID
	noted time.Time
}

// told is what one request tells the server. A pod is in one of the two at most.
type told struct {
	placed   []placement
	released []release
}

// notes hold what the server may not have seen yet: pods that were placed, and placements that were undone, since the last request.
type notes struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	told
}

func newNotes(clock clock.PassiveClock) *notes {
	return &notes{clock: clock}
}

// place notes a placement. It takes the place of whatever was noted of that pod.
func (n *notes) place(placement placement) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(placement.UID)
	placement.noted = n.clock.Now()
	n.placed = bounded(append(n.placed, placement))
}

// release notes that a placement was undone. The server is told even where it was not told of the placement: a request may be under way.
func (n *notes) release(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(uid)
	n.released = bounded(append(n.released, release{uid: uid, noted: n.clock.Now()}))
}

// take gives everything that is still of use, for a request.
func (n *notes) take() told {
	n.mu.Lock()
	defer n.mu.Unlock()
	oldest := n.clock.Now().Add(-maxNoteAge)
	taken := told{
		placed:   slices.DeleteFunc(n.placed, func(p placement) bool { return p.noted.Before(oldest) }),
		released: slices.DeleteFunc(n.released, func(r release) bool { return r.noted.Before(oldest) }),
	}
	n.told = told{}
	return taken
}

// giveBack keeps what a failed request was to tell, but for pods of which something newer is known.
func (n *notes) giveBack(told told) {
	n.mu.Lock()
	defer n.mu.Unlock()
	placed := slices.DeleteFunc(told.placed, func(p placement) bool { return n.knows(p.UID) })
	released := slices.DeleteFunc(told.released, func(r release) bool { return n.knows(r.uid) })
	n.placed = bounded(append(placed, n.placed...))
	n.released = bounded(append(released, n.released...))
}

func (n *notes) forget(uid types.UID) {
	n.placed = slices.DeleteFunc(n.placed, func(p placement) bool { return p.UID == uid })
	n.released = slices.DeleteFunc(n.released, func(r release) bool { return r.uid == uid })
}

func (n *notes) knows(uid types.UID) bool {
	return slices.ContainsFunc(n.placed, func(p placement) bool { return p.UID == uid }) ||
		slices.ContainsFunc(n.released, func(r release) bool { return r.uid == uid })
}

// bounded leaves the newest.
func bounded[T any](list []T) []T {
	return list[max(0, len(list)-maxNotes):]
}
