package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// syncTimeout bounds how long the informers may take to deliver a case; they
// work in memory, so that anything near it is a defect.
const syncTimeout = 20 * time.Second

var setUp sync.Once

// cluster is one running copy of the stock scheduler's state over the objects
// of a case: informers, snapshot, nominator and plugins.
type cluster struct {
	ctx        context.Context
	cancel     context.CancelFunc
	client     *fake.Clientset
	informers  informers.SharedInformerFactory
	nodes      []*v1.Node
	pods       []*v1.Pod
	snapshot   *internalcache.Snapshot
	queue      internalqueue.SchedulingQueue
	framework  framework.Framework
	claims     *assumecache.AssumeCache
	preemption *DryPreemption
	devices    *dynamicresources.DynamicResources
	handlers   []cache.DoneChecker
	version    atomic.Int64
	watched    sync.Map
	// dry swallows the writes of plugins and notes in wrote that there were any.
	dry, wrote bool
}

// newCluster starts the stock scheduler's parts over objects. Pending pods are
// those the API holds without a node, besides the ones in objects.
func newCluster(rawConfig json.RawMessage, objects *Objects, pending ...*v1.Pod) (*cluster, error) {
	setUp.Do(func() {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
		metrics.Register()
	})
	schedulerName := v1.DefaultSchedulerName
	if len(pending) > 0 && pending[0].Spec.SchedulerName != "" {
		schedulerName = pending[0].Spec.SchedulerName
	}
	profile, err := loadProfile(rawConfig, schedulerName)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	c := &cluster{ctx: ctx, cancel: cancel}
	if c.client, err = c.newClient(objects, pending); err != nil {
		cancel()
		return nil, err
	}
	c.informers = informers.NewSharedInformerFactory(c.client, 0)
	c.snapshot = internalcache.NewEmptySnapshot()
	if err := c.buildFramework(profile); err != nil {
		c.close()
		return nil, err
	}
	if err := c.startInformers(); err != nil {
		c.close()
		return nil, err
	}
	for _, node := range objects.Nodes {
		c.nodes = append(c.nodes, node.DeepCopy())
	}
	for _, pod := range objects.Pods {
		if pod.Spec.NodeName == "" {
			c.queue.Add(ctx, pod.DeepCopy())
			continue
		}
		c.pods = append(c.pods, pod.DeepCopy())
	}
	return c, nil
}

func (c *cluster) close() {
	c.cancel()
	if c.queue != nil {
		c.queue.Close()
	}
	c.informers.Shutdown()
}

// newClient makes an API that numbers every write: the scheduler's assume
// caches tell old objects from new ones by resource version.
func (c *cluster) newClient(objects *Objects, pending []*v1.Pod) (*fake.Clientset, error) {
	all := objects.list()
	for _, pod := range objects.Pods {
		all = append(all, pod.DeepCopy())
	}
	for _, pod := range pending {
		all = append(all, pod.DeepCopy())
	}
	for _, object := range all {
		c.stamp(object)
	}
	client := fake.NewSimpleClientset()
	for _, object := range all {
		if err := client.Tracker().Add(object); err != nil {
			return nil, err
		}
	}
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		write, ok := action.(interface{ GetObject() runtime.Object })
		if !ok {
			return false, nil, nil
		}
		if c.dry {
			c.wrote = true
			return true, write.GetObject(), nil
		}
		c.stamp(write.GetObject())
		return false, nil, nil
	})
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watcher, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		c.watched.Store(action.GetResource().Resource, true)
		return true, watcher, nil
	})
	return client, nil
}

func (c *cluster) stamp(object runtime.Object) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetResourceVersion(strconv.FormatInt(c.version.Add(1), 10))
	}
}

func (c *cluster) buildFramework(profile *config.KubeSchedulerProfile) error {
	registry := plugins.NewInTreeRegistry()
	registry[defaultpreemption.Name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := NewDryPreemption(ctx, args, handle)
		if err != nil {
			return nil, err
		}
		plugin.checks = picks
		c.preemption = plugin
		return plugin, nil
	}
	stockDevices := registry[dynamicresources.Name]
	registry[dynamicresources.Name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := stockDevices(ctx, args, handle)
		if devices, ok := plugin.(*dynamicresources.DynamicResources); ok {
			c.devices = devices
		}
		return plugin, err
	}

	logger := klog.FromContext(c.ctx)
	c.claims = assumecache.NewAssumeCache(logger, c.informers.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(c.ctx, tracker.Options{
		EnableDeviceTaintRules:   feature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: feature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            c.informers.Resource().V1().ResourceSlices(),
		KubeClient:               c.client,
	})
	if err != nil {
		return err
	}
	devices := dynamicresources.NewDRAManager(c.ctx, c.claims, slices, c.informers)
	if classes, ok := devices.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok {
		registration, err := c.informers.Resource().V1().DeviceClasses().Informer().AddEventHandler(classes)
		if err != nil {
			return err
		}
		c.handlers = append(c.handlers, registration.HasSyncedChecker())
	}
	c.handlers = append(c.handlers, c.claims.AddEventHandler(cache.ResourceEventHandlerFuncs{}).HasSyncedChecker())

	c.framework, err = frameworkruntime.NewFramework(c.ctx, registry, profile,
		frameworkruntime.WithComponentConfigVersion("kubescheduler.config.k8s.io/v1"),
		frameworkruntime.WithClientSet(c.client),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
		frameworkruntime.WithInformerFactory(c.informers),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(c.informers.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSnapshotSharedLister(c.snapshot),
		frameworkruntime.WithParallelism(1),
	)
	if err != nil {
		return err
	}
	c.queue = internalqueue.NewSchedulingQueue(c.framework.QueueSortFunc(), c.informers,
		internalqueue.WithPodLister(c.informers.Core().V1().Pods().Lister()))
	c.framework.SetPodNominator(c.queue)
	c.framework.SetPodActivator(c.queue)
	return nil
}

func (c *cluster) startInformers() error {
	c.informers.Core().V1().Pods().Informer()
	c.informers.Policy().V1().PodDisruptionBudgets().Informer()
	c.informers.Start(c.ctx.Done())
	ctx, cancel := context.WithTimeout(c.ctx, syncTimeout)
	defer cancel()
	if err := c.informers.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return fmt.Errorf("informers did not deliver within %v: %w", syncTimeout, err)
	}
	if !cache.WaitFor(ctx, "", c.handlers...) {
		return fmt.Errorf("event handlers did not finish within %v", syncTimeout)
	}
	return nil
}

// loadProfile reads a KubeSchedulerConfiguration strictly, or the defaults, and
// returns the profile of that name.
func loadProfile(raw json.RawMessage, schedulerName string) (*config.KubeSchedulerProfile, error) {
	cfg, err := latest.Default()
	if err != nil {
		return nil, err
	}
	if len(raw) > 0 {
		object, _, err := scheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		read, ok := object.(*config.KubeSchedulerConfiguration)
		if !ok {
			return nil, fmt.Errorf("config: want a KubeSchedulerConfiguration, got %T", object)
		}
		cfg = read
	}
	for i := range cfg.Profiles {
		if cfg.Profiles[i].SchedulerName == schedulerName {
			return &cfg.Profiles[i], nil
		}
	}
	return nil, fmt.Errorf("config: no profile named %q, which the pod asks for", schedulerName)
}
