package main

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"plimsoll.dev/conformance/cmd/stock-sim/stock"
)

// departure is a running pod and its end; order breaks ties between ends.
type departure struct {
	at    float64
	order int
	pod   *v1.Pod
}

type departures []departure

func (d departures) Len() int { return len(d) }
func (d departures) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].order < d[j].order
}
func (d departures) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *departures) Push(x any)   { *d = append(*d, x.(departure)) }
func (d *departures) Pop() any {
	last := len(*d) - 1
	popped := (*d)[last]
	(*d)[last] = departure{}
	*d = (*d)[:last]
	return popped
}

// simulation is the cluster between two events.
type simulation struct {
	scheduler *stock.Scheduler
	running   departures
	waiting   []arrival
	podsOn    map[string]int

	placements int
	// now is the virtual time up to which activeSeconds is integrated.
	now, activeSeconds float64
}

// simulate runs until the last arrival was tried.
func simulate(scheduler *stock.Scheduler, arrivals []arrival) (result, error) {
	s := &simulation{scheduler: scheduler, podsOn: map[string]int{}}
	var first float64
	if len(arrivals) > 0 {
		first = arrivals[0].at
		s.now = first
	}
	start := time.Now()
	for _, next := range arrivals {
		if err := s.departUntil(next.at); err != nil {
			return result{}, err
		}
		s.advance(next.at)
		placed, err := s.try(next)
		if err != nil {
			return result{}, err
		}
		if !placed {
			s.waiting = append(s.waiting, next)
		}
	}
	seconds := time.Since(start).Seconds()
	figures := result{Placements: s.placements, Seconds: seconds, Waiting: len(s.waiting), ActiveNodesMean: float64(len(s.podsOn))}
	if seconds > 0 {
		figures.PlacementsPerS = float64(s.placements) / seconds
	}
	if s.now > first {
		figures.ActiveNodesMean = s.activeSeconds / (s.now - first)
	}
	return figures, nil
}

func (s *simulation) advance(to float64) {
	s.activeSeconds += float64(len(s.podsOn)) * (to - s.now)
	s.now = to
}

// departUntil ends the pods whose time has come, and after each instant tries
// the waiting ones again.
func (s *simulation) departUntil(until float64) error {
	for len(s.running) > 0 && s.running[0].at <= until {
		s.advance(s.running[0].at)
		for len(s.running) > 0 && s.running[0].at <= s.now {
			pod := heap.Pop(&s.running).(departure).pod
			if err := s.scheduler.StopPod(pod); err != nil {
				return err
			}
			if err := s.scheduler.ForgetPod(pod); err != nil {
				return err
			}
			if s.podsOn[pod.Spec.NodeName]--; s.podsOn[pod.Spec.NodeName] == 0 {
				delete(s.podsOn, pod.Spec.NodeName)
			}
		}
		for len(s.waiting) > 0 {
			placed, err := s.try(s.waiting[0])
			if err != nil {
				return err
			}
			if !placed {
				break
			}
			s.waiting = s.waiting[1:]
		}
	}
	return nil
}

func (s *simulation) try(next arrival) (bool, error) {
	pod := next.pod()
	if err := s.scheduler.KnowPod(pod); err != nil {
		return false, err
	}
	placed, err := s.scheduler.Place(pod)
	if errors.Is(err, stock.ErrFitsNowhere) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("pod %s: %w", next.name, err)
	}
	s.placements++
	s.podsOn[placed.Spec.NodeName]++
	heap.Push(&s.running, departure{at: s.now + next.lifetime, order: s.placements, pod: placed})
	return true, nil
}
