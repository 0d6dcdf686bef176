package score

import (
	"container/heap"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// Pods that are remembered at most. Beyond, nobody is thought to be next, which costs time and nothing else.
const maxUpcoming = 1 << 16

// upcoming guesses which pod comes next: the most important one, of several the one that came first, as PrioritySort has it. A guess may be
// wrong: pods wait, are held back, or are deleted.
type upcoming struct {
	// The pod as it is now; nil if it is gone.
	lookup func(namespace, name string) *v1.Pod

	mu    sync.Mutex
	queue turns
	known map[types.UID]*waiting
	count uint64
}

// waiting is a pod in the queue.
type waiting struct {
	uid             types.UID
	namespace, name string
	priority        int32
	turn            uint64
	at              int
}

func newUpcoming(lookup func(namespace, name string) *v1.Pod) *upcoming {
	return &upcoming{lookup: lookup, known: map[types.UID]*waiting{}}
}

// comes takes in a pod that is about to wait.
func (u *upcoming) comes(pod *v1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known[pod.UID] != nil || len(u.queue) >= maxUpcoming {
		return
	}
	u.count++
	priority := corev1helpers.PodPriority(pod)
	one := &waiting{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, priority: priority, turn: u.count}
	u.known[pod.UID] = one
	heap.Push(&u.queue, one)
}

// goes forgets a pod: its turn has come, or it was not next though it was thought to be.
func (u *upcoming) goes(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget(u.known[uid])
}

func (u *upcoming) forget(one *waiting) {
	if one != nil {
		heap.Remove(&u.queue, one.at)
		delete(u.known, one.uid)
	}
}

// next gives the pod whose turn probably is next; nil if there is none.
func (u *upcoming) next() *v1.Pod {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.queue) > 0 {
		one := u.queue[0]
		pod := u.lookup(one.namespace, one.name)
		if pod != nil && pod.UID == one.uid && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			return pod
		}
		u.forget(one)
	}
	return nil
}

// turns are a heap.
type turns []*waiting

func (t turns) Len() int { return len(t) }

func (t turns) Less(i, j int) bool {
	if t[i].priority != t[j].priority {
		return t[i].priority > t[j].priority
	}
	return t[i].turn < t[j].turn
}

func (t turns) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].at, t[j].at = i, j
}

// Push is heap.Interface's.
func (t *turns) Push(one any) {
	added, _ := one.(*waiting)
	added.at = len(*t)
	*t = append(*t, added)
}

// Pop is heap.Interface's.
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	(*t)[len(*t)-1] = nil
	*t = (*t)[:len(*t)-1]
	return last
}
