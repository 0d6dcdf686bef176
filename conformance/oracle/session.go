package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ErrEffect marks a decision that kube-scheduler would accompany by a write of
// its own, such as freeing a claim it could not use; a sequence has no step
// for that.
var ErrEffect = errors.New("the decision has an effect that a sequence cannot hold")

// Session decides pods one after the other on one cluster and carries the
// state from each decision to the next.
type Session struct {
	cluster *cluster
}

// Attempt is a decision that has not been acted upon yet.
type Attempt struct {
	Expect *Expect
	pod    *v1.Pod
	state  fwk.CycleState
}

// NewSession starts with the objects of a case.
func NewSession(config json.RawMessage, objects *Objects) (*Session, error) {
	c, err := newCluster(config, objects)
	if err != nil {
		return nil, err
	}
	s := &Session{cluster: c}
	if err := s.await("the watch on pods", func() bool { _, ok := c.watched.Load("pods"); return ok }); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the session.
func (s *Session) Close() { s.cluster.close() }

// Try decides where pod goes and changes nothing that another decision sees.
func (s *Session) Try(pod *v1.Pod) (*Attempt, error) {
	pod = pod.DeepCopy()
	if err := s.store(pod); err != nil {
		return nil, err
	}
	s.cluster.dry, s.cluster.wrote = true, false
	expect, state, err := s.cluster.decide(pod)
	s.cluster.dry = false
	if err == nil && s.cluster.wrote {
		err = ErrEffect
	}
	if err != nil {
		return nil, err
	}
	for _, name := range expect.Feasible {
		if expect.Selected == "" || expect.Totals[name] > expect.Totals[expect.Selected] {
			expect.Selected = name
		}
	}
	return &Attempt{Expect: expect, pod: pod, state: state}, nil
}

// Commit acts upon a decision. A selected node gets the pod, with its volumes
// assumed and its claims allocated and reserved. A preemption removes its
// victims and leaves the pod waiting for the node: it is returned, to be tried
// again later. A pod that got nowhere leaves the cluster.
func (s *Session) Commit(attempt *Attempt) (*v1.Pod, error) {
	c := s.cluster
	pod := attempt.pod
	switch {
	case attempt.Expect.Selected != "":
		return nil, s.bind(attempt)
	case attempt.Expect.Preemption != nil:
		victims := attempt.Expect.Preemption.Victims
		c.pods = slices.DeleteFunc(c.pods, func(p *v1.Pod) bool { return slices.Contains(victims, p.Namespace+"/"+p.Name) })
		waiting := pod.DeepCopy()
		waiting.Status.NominatedNodeName = attempt.Expect.Preemption.Nominated
		if err := s.store(waiting); err != nil {
			return nil, err
		}
		c.queue.Delete(pod)
		c.queue.Add(c.ctx, waiting)
		return waiting, nil
	}
	c.queue.Delete(pod)
	return nil, s.drop(pod)
}

func (s *Session) bind(attempt *Attempt) error {
	c := s.cluster
	node := attempt.Expect.Selected
	assumed := attempt.pod.DeepCopy()
	assumed.Spec.NodeName = node
	if status := c.framework.RunReservePluginsReserve(c.ctx, attempt.state, assumed, node); !status.IsSuccess() {
		return fmt.Errorf("reserve: %w", status.AsError())
	}
	if c.devices != nil {
		if status := c.devices.PreBind(c.ctx, attempt.state, assumed, node); !status.IsSuccess() {
			return fmt.Errorf("bind claims: %w", status.AsError())
		}
	}
	c.queue.Delete(attempt.pod)
	assumed.Status.NominatedNodeName = ""
	assumed.Status.Phase = v1.PodRunning
	c.pods = append(c.pods, assumed)
	return s.store(assumed)
}

// store writes a pod to the API and waits until the informer has it.
func (s *Session) store(pod *v1.Pod) error {
	pods := s.cluster.client.CoreV1().Pods(pod.Namespace)
	stored, err := pods.Update(s.cluster.ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		stored, err = pods.Create(s.cluster.ctx, pod, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	lister := s.cluster.informers.Core().V1().Pods().Lister().Pods(pod.Namespace)
	return s.await("pod "+pod.Name, func() bool {
		seen, err := lister.Get(pod.Name)
		return err == nil && seen.ResourceVersion == stored.ResourceVersion
	})
}

// Drop forgets a pod that was tried only.
func (s *Session) Drop(pod *v1.Pod) error { return s.drop(pod) }

func (s *Session) drop(pod *v1.Pod) error {
	return s.cluster.client.CoreV1().Pods(pod.Namespace).Delete(s.cluster.ctx, pod.Name, metav1.DeleteOptions{})
}

func (s *Session) await(what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(s.cluster.ctx, syncTimeout)
	defer cancel()
	for !done() {
		if ctx.Err() != nil {
			return fmt.Errorf("%s did not arrive within %v", what, syncTimeout)
		}
		time.Sleep(50 * time.Microsecond)
	}
	return nil
}

// Replay answers all steps of a sequence again, from the start.
func Replay(c *Case) ([]*Expect, error) {
	session, err := NewSession(c.Config, &c.Objects)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	defer session.Close()
	var expects []*Expect
	for i, step := range c.Sequence {
		attempt, err := session.Try(step.Pod)
		if err != nil {
			return nil, fmt.Errorf("case %s, step %d: %w", c.Name, i, err)
		}
		if _, err := session.Commit(attempt); err != nil {
			return nil, fmt.Errorf("case %s, step %d: %w", c.Name, i, err)
		}
		expects = append(expects, attempt.Expect)
	}
	return expects, nil
}

// Confirm replays a sequence as often as a case is answered and reports
// ErrUnstable unless every step is always decided the same way.
func Confirm(c *Case) error {
	for range runs - 1 {
		expects, err := Replay(c)
		if err != nil {
			return err
		}
		for i, expect := range expects {
			want, err := json.Marshal(c.Sequence[i].Expect)
			if err != nil {
				return err
			}
			got, err := json.Marshal(expect)
			if err != nil {
				return err
			}
			if !bytes.Equal(want, got) {
				return ErrUnstable
			}
		}
	}
	return nil
}
