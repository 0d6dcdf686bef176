// Package stock is stock kube-scheduler as a library that others drive: its
// cache, snapshot, queue and plugins, with no API server behind them. Nothing
// happens between two calls, so that the caller's clock is the only one.
package stock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"plimsoll.dev/conformance/oracle"
)

// dryPreemption is the name under which preemption runs that evicts nobody; an
// out-of-tree plugin cannot have the name of an in-tree one.
const dryPreemption = "DryPreemption"

// metricsEvery is how often kube-scheduler records the time of each plugin.
const metricsEvery = 10

// ErrFitsNowhere says that no node is feasible for a pod.
var ErrFitsNowhere = errors.New("the pod fits nowhere")

var quiet sync.Once

// Options differ from the default profile only where they are set.
type Options struct {
	// Sample looks at the default share of nodes only, as kube-scheduler does
	// unless told otherwise; without it every node is examined.
	Sample bool
	// Strategy is how NodeResourcesFit scores; "" is its default, LeastAllocated.
	Strategy config.ScoringStrategyType
}

// Scheduler holds nodes and pods as kube-scheduler does and decides on request.
type Scheduler struct {
	Framework  framework.Framework
	Queue      fwkQueue
	Preemption *oracle.DryPreemption
	Informers  informers.SharedInformerFactory

	ctx       context.Context
	cancel    context.CancelFunc
	logger    klog.Logger
	scheduler *scheduler.Scheduler
	snapshot  *internalcache.Snapshot
	nodes     map[string]*v1.Node
	attempts  int
}

// fwkQueue is the part of the scheduling queue that keeps nominated pods.
type fwkQueue interface {
	Add(ctx context.Context, pod *v1.Pod)
	Delete(pod *v1.Pod)
	NominatedPodsForNode(nodeName string) []fwk.PodInfo
}

// New starts without nodes and pods. Close ends it.
func New(options Options) (*Scheduler, error) {
	quiet.Do(func() {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
	})
	cfg, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := cfg.Profiles[0]
	if err := setStrategy(&profile, options.Strategy); err != nil {
		return nil, err
	}
	for i, plugin := range profile.Plugins.MultiPoint.Enabled {
		if plugin.Name == names.DefaultPreemption {
			profile.Plugins.MultiPoint.Enabled[i].Name = dryPreemption
		}
	}
	percentage := int32(100)
	if options.Sample {
		percentage = 0
	}

	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	s := &Scheduler{ctx: ctx, cancel: cancel, logger: klog.FromContext(ctx), nodes: map[string]*v1.Node{}}
	registry := frameworkruntime.Registry{dryPreemption: func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := oracle.NewDryPreemption(ctx, arguments(&profile, names.DefaultPreemption), handle)
		s.Preemption = plugin
		return plugin, err
	}}
	client := fake.NewSimpleClientset()
	s.Informers = scheduler.NewInformerFactory(client, 0)
	s.scheduler, err = scheduler.New(ctx, client, s.Informers, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profile), scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(&percentage), scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		cancel()
		return nil, err
	}
	s.Queue = s.scheduler.SchedulingQueue
	s.Framework = s.scheduler.Profiles[v1.DefaultSchedulerName]
	snapshot, ok := s.Framework.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		cancel()
		return nil, errors.New("the framework's snapshot is of an unknown kind")
	}
	s.snapshot = snapshot
	return s, nil
}

// Close ends what New started.
func (s *Scheduler) Close() {
	s.scheduler.SchedulingQueue.Close()
	s.cancel()
}

// Context is the one that plugins are called with.
func (s *Scheduler) Context() context.Context { return s.ctx }

// SetNode adds a node, or replaces the one of that name.
func (s *Scheduler) SetNode(node *v1.Node) error {
	if old, ok := s.nodes[node.Name]; ok {
		s.scheduler.Cache.UpdateNode(s.logger, old, node)
	} else {
		s.scheduler.Cache.AddNode(s.logger, node)
	}
	s.nodes[node.Name] = node
	return s.Informers.Core().V1().Nodes().Informer().GetStore().Add(node)
}

// HasNode says whether there is a node of that name.
func (s *Scheduler) HasNode(name string) bool { return s.nodes[name] != nil }

// RemoveNode removes a node; its pods stay until StopPod.
func (s *Scheduler) RemoveNode(name string) error {
	node, ok := s.nodes[name]
	if !ok {
		return fmt.Errorf("no node %s", name)
	}
	if err := s.scheduler.Cache.RemoveNode(s.logger, node); err != nil {
		return err
	}
	delete(s.nodes, name)
	return s.Informers.Core().V1().Nodes().Informer().GetStore().Delete(node)
}

func (s *Scheduler) pods() cache.Store { return s.Informers.Core().V1().Pods().Informer().GetStore() }

// KnowPod makes a pod, or its newer version, visible to listers of pods.
func (s *Scheduler) KnowPod(pod *v1.Pod) error { return s.pods().Add(pod) }

// ForgetPod takes a pod from the listers of pods.
func (s *Scheduler) ForgetPod(pod *v1.Pod) error { return s.pods().Delete(pod) }

// StartPod lets a pod that names its node take its room there.
func (s *Scheduler) StartPod(pod *v1.Pod) error { return s.scheduler.Cache.AddPod(s.logger, pod) }

// UpdatePod replaces a running pod by its newer version.
func (s *Scheduler) UpdatePod(old, pod *v1.Pod) error {
	return s.scheduler.Cache.UpdatePod(s.logger, old, pod)
}

// StopPod frees the room of a running pod.
func (s *Scheduler) StopPod(pod *v1.Pod) error { return s.scheduler.Cache.RemovePod(s.logger, pod) }

// Refresh brings the snapshot up to date, copying only what changed, and lists
// its nodes.
func (s *Scheduler) Refresh() ([]fwk.NodeInfo, error) {
	if err := s.scheduler.Cache.UpdateSnapshot(s.logger, s.snapshot); err != nil {
		return nil, err
	}
	return s.snapshot.NodeInfos().List()
}

// Place does for a pending pod what the scheduling loop does up to the binding:
// queue, snapshot, filters, scores, choice. It returns the pod as it runs now,
// or ErrFitsNowhere. Preemption is left out.
func (s *Scheduler) Place(pod *v1.Pod) (*v1.Pod, error) {
	s.scheduler.SchedulingQueue.Add(s.ctx, pod)
	queued, err := s.scheduler.NextPod(s.logger)
	if err != nil {
		return nil, err
	}
	defer s.scheduler.SchedulingQueue.Done(pod.UID)
	result, err := s.Schedule(queued)
	if err != nil {
		return nil, err
	}
	placed := queued.DeepCopy().Pod
	placed.Spec.NodeName = result.SuggestedHost
	return placed, s.scheduler.Cache.AssumePod(s.logger, placed)
}

// Schedule runs one cycle of kube-scheduler itself and changes nothing.
func (s *Scheduler) Schedule(queued *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	if err := s.scheduler.Cache.UpdateSnapshot(s.logger, s.snapshot); err != nil {
		return scheduler.ScheduleResult{}, err
	}
	state := framework.NewCycleState()
	state.SetRecordPluginMetrics(s.attempts%metricsEvery == 0)
	s.attempts++
	result, err := s.scheduler.SchedulePod(s.ctx, s.Framework, state, queued)
	var unfit *framework.FitError
	if errors.As(err, &unfit) || errors.Is(err, scheduler.ErrNoNodesAvailable) {
		return result, ErrFitsNowhere
	}
	return result, err
}

func arguments(profile *config.KubeSchedulerProfile, plugin string) runtime.Object {
	for _, entry := range profile.PluginConfig {
		if entry.Name == plugin {
			return entry.Args
		}
	}
	return nil
}

func setStrategy(profile *config.KubeSchedulerProfile, strategy config.ScoringStrategyType) error {
	if strategy == "" {
		return nil
	}
	fit, ok := arguments(profile, names.NodeResourcesFit).(*config.NodeResourcesFitArgs)
	if !ok || fit.ScoringStrategy == nil {
		return errors.New("the default profile does not say how NodeResourcesFit scores")
	}
	fit.ScoringStrategy.Type = strategy
	return nil
}
