package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	preempting "k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"plimsoll.dev/conformance/cmd/stock-sim/stock"
)

// replayable are the kinds of objects whose listers the default profile reads;
// others need event handlers, which nobody runs here.
var replayable = []string{"Namespace", "Service", "ReplicaSet", "StatefulSet", "ReplicationController", "PodDisruptionBudget"}

// replay is the cluster that the lines so far have made.
type replay struct {
	name      string
	scheduler *stock.Scheduler
	report    *report
	// pods has every pod that arrived and is not gone, by UID; a placed one
	// names its node.
	pods map[string]*v1.Pod
}

func newReplay(name string, report *report) (*replay, error) {
	scheduler, err := stock.New(stock.Options{})
	if err != nil {
		return nil, err
	}
	return &replay{name: name, scheduler: scheduler, report: report, pods: map[string]*v1.Pod{}}, nil
}

func (r *replay) close() { r.scheduler.Close() }

// apply checks the event if it is a decision, then lets it happen.
func (r *replay) apply(line int, e *event) error {
	where := fmt.Sprintf("%s:%d: at %v", r.name, line, *e.At)
	switch {
	case e.Node != nil:
		if e.Node.Name == "" {
			return errors.New("a node without metadata.name")
		}
		return r.scheduler.SetNode(e.Node)
	case e.NodeGone != nil:
		return r.scheduler.RemoveNode(*e.NodeGone)
	case e.Pod != nil:
		return r.arrive(e.Pod, *e.At)
	case e.PodGone != nil:
		return r.leave(*e.PodGone)
	case e.Object != nil:
		return r.set(e.Object)
	case e.Place != nil:
		return r.place(where, e.Place, *e.At)
	case e.Wait != nil:
		return r.wait(where, e.Wait)
	case e.Preempt != nil:
		return r.preempt(where, e.Preempt, *e.At)
	}
	return errors.New("no event")
}

// virtual is the point in time that many seconds after the beginning.
func virtual(at float64) *metav1.Time {
	return &metav1.Time{Time: time.Unix(0, 0).Add(time.Duration(at * float64(time.Second)))}
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func (r *replay) arrive(pod *v1.Pod, at float64) error {
	uid := string(pod.UID)
	if uid == "" || pod.Name == "" {
		return fmt.Errorf("pod %q with uid %q: metadata.name and metadata.uid are required", pod.Name, uid)
	}
	if r.pods[uid] != nil {
		return fmt.Errorf("pod %s arrived before", uid)
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.SchedulerName = v1.DefaultSchedulerName
	r.pods[uid] = pod
	if pod.Spec.NodeName != "" {
		return r.start(pod, pod.Spec.NodeName, at)
	}
	if pod.Status.NominatedNodeName != "" {
		return r.nominate(pod, pod.Status.NominatedNodeName)
	}
	return r.scheduler.KnowPod(pod)
}

func (r *replay) start(pod *v1.Pod, node string, at float64) error {
	running := pod.DeepCopy()
	running.Spec.NodeName = node
	running.Status.NominatedNodeName = ""
	running.Status.Phase = v1.PodRunning
	if running.Status.StartTime == nil {
		running.Status.StartTime = virtual(at)
	}
	r.scheduler.Queue.Delete(pod)
	r.pods[string(pod.UID)] = running
	if err := r.scheduler.KnowPod(running); err != nil {
		return err
	}
	return r.scheduler.StartPod(running)
}

func (r *replay) leave(uid string) error {
	pod := r.pods[uid]
	if pod == nil {
		return fmt.Errorf("no pod %s", uid)
	}
	delete(r.pods, uid)
	if err := r.scheduler.ForgetPod(pod); err != nil {
		return err
	}
	if pod.Spec.NodeName != "" {
		return r.scheduler.StopPod(pod)
	}
	r.scheduler.Queue.Delete(pod)
	return nil
}

// nominate lets a pending pod count on node, or on none if it is "".
func (r *replay) nominate(pod *v1.Pod, node string) error {
	r.scheduler.Queue.Delete(pod)
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = node
	r.pods[string(pod.UID)] = pod
	if err := r.scheduler.KnowPod(pod); err != nil {
		return err
	}
	if node != "" {
		// The nominator knows the requests of a pod only while it is queued.
		r.scheduler.Queue.Add(r.scheduler.Context(), pod)
	}
	return nil
}

func (r *replay) set(raw []byte) error {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return fmt.Errorf("object: %w", err)
	}
	if !slices.Contains(replayable, kind.Kind) {
		return fmt.Errorf("object: a %s cannot be replayed; there are %v", kind.Kind, replayable)
	}
	resource, _ := meta.UnsafeGuessKindToResource(*kind)
	informer, err := r.scheduler.Informers.ForResource(resource)
	if err != nil {
		return fmt.Errorf("object: %w", err)
	}
	return informer.Informer().GetStore().Add(object)
}

// pending finds the pod of a decision.
func (r *replay) pending(uid string) (*v1.Pod, error) {
	pod := r.pods[uid]
	switch {
	case pod == nil:
		return nil, fmt.Errorf("no pod %s has arrived", uid)
	case pod.Spec.NodeName != "":
		return nil, fmt.Errorf("pod %s runs on node %s already", describe(pod), pod.Spec.NodeName)
	}
	return pod, nil
}

func (r *replay) place(where string, p *placement, at float64) error {
	pod, err := r.pending(p.UID)
	if err != nil {
		return err
	}
	if !r.scheduler.HasNode(p.Node) {
		return fmt.Errorf("pod %s is placed on node %q, which is not there", describe(pod), p.Node)
	}
	c, err := runCycle(r.scheduler, pod)
	if err != nil {
		return fmt.Errorf("pod %s: %w", describe(pod), err)
	}
	best := c.best()
	if *p.Feasible == len(c.feasible) && slices.Contains(best, p.Node) && *p.Ties == len(best) {
		r.report.placements++
	} else {
		ours := fmt.Sprintf("node %s; %d feasible, %d share the highest total", p.Node, *p.Feasible, *p.Ties)
		r.report.differ(where, c, ours, c.choice(), p.Node)
	}
	return r.start(pod, p.Node, at)
}

func (r *replay) wait(where string, w *waiting) error {
	pod, err := r.pending(w.UID)
	if err != nil {
		return err
	}
	c, err := runCycle(r.scheduler, pod)
	if err != nil {
		return fmt.Errorf("pod %s: %w", describe(pod), err)
	}
	if len(c.feasible) > 0 {
		r.report.differ(where, c, "wait", c.choice(), "")
		return nil
	}
	rescue, err := c.findRescue(r.scheduler)
	if err != nil {
		return fmt.Errorf("pod %s: preemption: %w", describe(pod), err)
	}
	if best := rescue.best(r.scheduler); best != nil {
		r.report.differ(where, c, "wait", fmt.Sprintf("preempt %v on node %s", victims(best), best.Name()), "")
		return nil
	}
	r.report.waits++
	// A pod that preemption could help, but does not, gives its nominated node up.
	if rescue.eligible && pod.Status.NominatedNodeName != "" {
		return r.nominate(pod, "")
	}
	return nil
}

func (r *replay) preempt(where string, p *preemption, at float64) error {
	pod, err := r.pending(p.UID)
	if err != nil {
		return err
	}
	if !r.scheduler.HasNode(p.Node) {
		return fmt.Errorf("pod %s preempts on node %q, which is not there", describe(pod), p.Node)
	}
	for _, uid := range p.Victims {
		if victim := r.pods[uid]; victim == nil || victim.Spec.NodeName != p.Node {
			return fmt.Errorf("pod %s preempts %s, which does not run on node %s", describe(pod), uid, p.Node)
		}
	}
	c, err := runCycle(r.scheduler, pod)
	if err != nil {
		return fmt.Errorf("pod %s: %w", describe(pod), err)
	}
	stocks, err := r.checkPreemption(c, p)
	if err != nil {
		return fmt.Errorf("pod %s: preemption: %w", describe(pod), err)
	}
	if stocks == "" {
		r.report.preemptions++
	} else {
		r.report.differ(where, c, fmt.Sprintf("preempt %v on node %s", p.Victims, p.Node), stocks, p.Node)
	}
	return r.evict(pod, p, at)
}

// checkPreemption describes what kube-scheduler does instead; "" if it may do
// the same.
func (r *replay) checkPreemption(c *cycle, p *preemption) (string, error) {
	if len(c.feasible) > 0 {
		return c.choice(), nil
	}
	rescue, err := c.findRescue(r.scheduler)
	if err != nil {
		return "", err
	}
	if len(rescue.candidates) == 0 {
		return "wait: preemption does not help", nil
	}
	wanted := slices.Sorted(slices.Values(p.Victims))
	same := slices.IndexFunc(rescue.candidates, func(candidate preempting.Candidate) bool {
		return candidate.Name() == p.Node && slices.Equal(victims(candidate), wanted)
	})
	if same >= 0 && rescue.mayChoose(r.scheduler, rescue.candidates[same]) {
		return "", nil
	}
	best := rescue.best(r.scheduler)
	return fmt.Sprintf("preempt %v on node %s", victims(best), best.Name()), nil
}

// evict does what follows upon a preemption: the victims are being deleted, and
// nominated pods of less priority give the node up.
func (r *replay) evict(pod *v1.Pod, p *preemption, at float64) error {
	for _, uid := range p.Victims {
		old := r.pods[uid]
		victim := old.DeepCopy()
		victim.DeletionTimestamp = virtual(at)
		victim.Status.Conditions = append(victim.Status.Conditions,
			v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler})
		r.pods[uid] = victim
		if err := r.scheduler.KnowPod(victim); err != nil {
			return err
		}
		if err := r.scheduler.UpdatePod(old, victim); err != nil {
			return err
		}
	}
	for _, nominated := range r.scheduler.Queue.NominatedPodsForNode(p.Node) {
		other := nominated.GetPod()
		if priority(other) < priority(pod) {
			if err := r.nominate(other, ""); err != nil {
				return err
			}
		}
	}
	return r.nominate(pod, p.Node)
}
