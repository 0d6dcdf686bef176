package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
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

const dryPreemption = "DryPreemption"

// metricsEvery is how often kube-scheduler records the time of each plugin.
const metricsEvery = 10

// figures is the line that a run prints.
type figures struct {
	Cluster          string  `json:"cluster"`
	Mode             string  `json:"mode"`
	Nodes            int     `json:"nodes"`
	BoundPods        int     `json:"bound_pods"`
	Decisions        int     `json:"decisions"`
	Placed           int     `json:"placed"`
	Preempted        int     `json:"preempted"`
	DecisionsPerS    float64 `json:"decisions_per_s"`
	P50Ms            float64 `json:"p50_ms"`
	P99Ms            float64 `json:"p99_ms"`
	BytesPerDecision float64 `json:"bytes_per_decision"`
	BytesPerNode     float64 `json:"bytes_per_node"`
	BytesPerPod      float64 `json:"bytes_per_pod"`
}

// lines are the undecoded records of a cluster file by kind.
type lines map[string][]json.RawMessage

// measure prints the figures of one round of decisions; stepped, of one round for
// each line of standard input, so that others can be measured in between.
func measure(path, mode string, decisions, warmup int, stepped bool) error {
	var percentage int32
	switch mode {
	case "sampled":
	case "all":
		percentage = 100
	default:
		return fmt.Errorf("no mode %q; there are sampled and all", mode)
	}
	if path == "" {
		return errors.New("run: name the cluster file with -cluster")
	}
	records, err := readLines(path)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()

	b, err := newBench(ctx, percentage)
	if err != nil {
		return err
	}
	result := figures{Cluster: path, Mode: mode, Nodes: len(records["node"]), BoundPods: len(records["bound"])}
	if err := b.load(records, &result); err != nil {
		return err
	}
	pending := records["pending"]
	encoder := json.NewEncoder(os.Stdout)
	steps := bufio.NewScanner(os.Stdin)
	for !stepped || steps.Scan() {
		round := result
		if err := b.decideAll(pending, decisions, warmup, &round); err != nil {
			return err
		}
		if err := encoder.Encode(round); err != nil || !stepped {
			return err
		}
		pending, warmup = pending[warmup+decisions:], 0
	}
	return steps.Err()
}

func readLines(path string) (lines, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var reader io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if reader, err = gzip.NewReader(file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	records := lines{}
	scanner := bufio.NewScanner(reader)
	scanner.Buffer(nil, 16<<20)
	for number := 1; scanner.Scan(); number++ {
		var line map[string]json.RawMessage
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		for kind, object := range line {
			records[kind] = append(records[kind], object)
		}
	}
	return records, scanner.Err()
}

func decode[T any](raw json.RawMessage) (*T, error) {
	object := new(T)
	return object, json.Unmarshal(raw, object)
}

// bench is a stock scheduler whose informers nobody feeds but us.
type bench struct {
	ctx        context.Context
	logger     klog.Logger
	scheduler  *scheduler.Scheduler
	informers  informers.SharedInformerFactory
	framework  framework.Framework
	snapshot   *internalcache.Snapshot
	preemption *oracle.DryPreemption
}

func newBench(ctx context.Context, percentage int32) (*bench, error) {
	b := &bench{ctx: ctx, logger: klog.FromContext(ctx)}
	cfg, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := cfg.Profiles[0]
	for i, plugin := range profile.Plugins.MultiPoint.Enabled {
		if plugin.Name == names.DefaultPreemption {
			profile.Plugins.MultiPoint.Enabled[i].Name = dryPreemption
		}
	}
	registry := frameworkruntime.Registry{dryPreemption: func(ctx context.Context, _ apiruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		var args apiruntime.Object
		for _, plugin := range profile.PluginConfig {
			if plugin.Name == names.DefaultPreemption {
				args = plugin.Args
			}
		}
		plugin, err := oracle.NewDryPreemption(ctx, args, handle)
		b.preemption = plugin
		return plugin, err
	}}
	client := fake.NewSimpleClientset()
	b.informers = scheduler.NewInformerFactory(client, 0)
	b.scheduler, err = scheduler.New(ctx, client, b.informers, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles([]config.KubeSchedulerProfile{profile}...), scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(&percentage), scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		return nil, err
	}
	b.framework = b.scheduler.Profiles[v1.DefaultSchedulerName]
	snapshot, ok := b.framework.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return nil, errors.New("the framework's snapshot is of an unknown kind")
	}
	b.snapshot = snapshot
	return b, nil
}

// load fills the cache and notes what nodes and bound pods cost in memory.
func (b *bench) load(records lines, result *figures) error {
	before := liveHeap()
	for _, raw := range records["node"] {
		node, err := decode[v1.Node](raw)
		if err != nil {
			return err
		}
		b.scheduler.Cache.AddNode(b.logger, node)
		if err := b.informers.Core().V1().Nodes().Informer().GetStore().Add(node); err != nil {
			return err
		}
	}
	if err := b.scheduler.Cache.UpdateSnapshot(b.logger, b.snapshot); err != nil {
		return err
	}
	withNodes := liveHeap()
	for _, raw := range records["namespace"] {
		namespace, err := decode[v1.Namespace](raw)
		if err != nil {
			return err
		}
		if err := b.informers.Core().V1().Namespaces().Informer().GetStore().Add(namespace); err != nil {
			return err
		}
	}
	for _, raw := range records["service"] {
		service, err := decode[v1.Service](raw)
		if err != nil {
			return err
		}
		if err := b.informers.Core().V1().Services().Informer().GetStore().Add(service); err != nil {
			return err
		}
	}
	for _, raw := range records["bound"] {
		pod, err := decode[v1.Pod](raw)
		if err != nil {
			return err
		}
		if err := b.scheduler.Cache.AddPod(b.logger, pod); err != nil {
			return err
		}
		if err := b.informers.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			return err
		}
	}
	if err := b.scheduler.Cache.UpdateSnapshot(b.logger, b.snapshot); err != nil {
		return err
	}
	withPods := liveHeap()
	result.BytesPerNode = (withNodes - before) / float64(max(result.Nodes, 1))
	result.BytesPerPod = (withPods - withNodes) / float64(max(result.BoundPods, 1))
	return nil
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func (b *bench) decideAll(pending []json.RawMessage, decisions, warmup int, result *figures) error {
	if len(pending) < warmup+decisions {
		return fmt.Errorf("the cluster file has %d pending pods; %d decisions after %d of warm-up need more", len(pending), decisions, warmup)
	}
	took := make([]time.Duration, 0, decisions)
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var bytes uint64
	for i, raw := range pending[:warmup+decisions] {
		pod, err := decode[v1.Pod](raw)
		if err != nil {
			return err
		}
		queued, err := b.pop(pod)
		if err != nil {
			return err
		}
		metrics.Read(allocated)
		bytesBefore, start := allocated[0].Value.Uint64(), time.Now()
		outcome, err := b.decide(queued, i)
		elapsed := time.Since(start)
		metrics.Read(allocated)
		if err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		b.scheduler.SchedulingQueue.Done(pod.UID)
		if err := b.apply(pod, outcome); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if i < warmup {
			continue
		}
		took = append(took, elapsed)
		bytes += allocated[0].Value.Uint64() - bytesBefore
		switch {
		case outcome.node != "":
			result.Placed++
		case outcome.nominated != "":
			result.Preempted++
		}
	}
	var total time.Duration
	for _, d := range took {
		total += d
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[min(len(took)-1, int(share*float64(len(took))))]) / float64(time.Millisecond)
	}
	result.Decisions = len(took)
	result.DecisionsPerS = float64(len(took)) / total.Seconds()
	result.P50Ms, result.P99Ms = at(0.5), at(0.99)
	result.BytesPerDecision = float64(bytes) / float64(len(took))
	return nil
}

// pop sends a pod through the queue, which also signs it for batching.
func (b *bench) pop(pod *v1.Pod) (*framework.QueuedPodInfo, error) {
	if err := b.informers.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
		return nil, err
	}
	b.scheduler.SchedulingQueue.Add(b.ctx, pod)
	return b.scheduler.NextPod(b.logger)
}

// outcome is where a pod goes: to a node, or to one cleared for it.
type outcome struct {
	node, nominated string
	victims         []*v1.Pod
}

// decide is the timed part: what the scheduling loop does up to the binding.
func (b *bench) decide(queued *framework.QueuedPodInfo, index int) (outcome, error) {
	if err := b.scheduler.Cache.UpdateSnapshot(b.logger, b.snapshot); err != nil {
		return outcome{}, err
	}
	state := framework.NewCycleState()
	state.SetRecordPluginMetrics(index%metricsEvery == 0)
	result, err := b.scheduler.SchedulePod(b.ctx, b.framework, state, queued)
	if err == nil {
		assumed := queued.DeepCopy().Pod
		assumed.Spec.NodeName = result.SuggestedHost
		return outcome{node: result.SuggestedHost}, b.scheduler.Cache.AssumePod(b.logger, assumed)
	}
	var unfit *framework.FitError
	if !errors.As(err, &unfit) {
		return outcome{}, err
	}
	nominating, _ := b.framework.RunPostFilterPlugins(b.ctx, state, queued.Pod, unfit.Diagnosis.NodeToStatus)
	if nominating == nil || nominating.NominatingInfo == nil || nominating.NominatedNodeName == "" {
		return outcome{}, nil
	}
	return outcome{nominated: nominating.NominatedNodeName, victims: b.preemption.Victims}, nil
}

// apply evicts the victims of a preemption and puts the pod in their place.
func (b *bench) apply(pod *v1.Pod, o outcome) error {
	if o.nominated == "" {
		return nil
	}
	for _, victim := range o.victims {
		if err := b.scheduler.Cache.RemovePod(b.logger, victim); err != nil {
			return err
		}
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = o.nominated
	return b.scheduler.Cache.AssumePod(b.logger, assumed)
}
