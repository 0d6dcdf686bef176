// Command null-binder binds pods to nodes in turn, without a thought: what is left of a scheduler when deciding costs nothing. It watches the
// same objects and writes the same bindings and events, so that its rate is the most that any scheduler can reach on a control plane.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// More pods than any benchmark has: a handler of an informer never waits.
const mostPods = 1 << 20

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the cluster")
	name := flag.String("scheduler-name", corev1.DefaultSchedulerName, "whose pods are bound")
	workers := flag.Int("workers", 32, "connections for bindings, and as many for events")
	flag.Parse()
	if err := run(*kubeconfig, *name, *workers); err != nil {
		log.Fatal(err)
	}
}

type binder struct {
	name   string
	nodes  []string
	next   atomic.Uint64
	events chan *corev1.Pod
}

func run(kubeconfig, name string, workers int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	watcher, err := connect(config)
	if err != nil {
		return err
	}
	b := &binder{name: name, events: make(chan *corev1.Pod, mostPods)}
	factory := informers.NewSharedInformerFactoryWithOptions(watcher, 0, informers.WithTransform(stripManagedFields))
	nodes := factory.Core().V1().Nodes()
	nodes.Informer()
	pods := make(chan *corev1.Pod, mostPods)
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "" && pod.Spec.SchedulerName == name {
				pods <- pod
			}
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for _, object := range nodes.Informer().GetStore().List() {
		if node, ok := object.(*corev1.Node); ok {
			b.nodes = append(b.nodes, node.Name)
		}
	}
	if len(b.nodes) == 0 {
		return fmt.Errorf("there are no nodes to bind pods to")
	}
	for range workers {
		for work, do := range map[chan *corev1.Pod]func(context.Context, kubernetes.Interface, *corev1.Pod){pods: b.bind, b.events: b.tell} {
			client, err := connect(config)
			if err != nil {
				return err
			}
			go func() {
				for pod := range work {
					do(ctx, client, pod)
				}
			}()
		}
	}
	<-ctx.Done()
	return nil
}

// stripManagedFields forgets who wrote what, as kube-scheduler does.
func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// connect gives a client with a connection of its own.
func connect(config *rest.Config) (kubernetes.Interface, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
	return kubernetes.NewForConfigAndClient(config, &http.Client{Transport: transport})
}

func (b *binder) bind(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) {
	node := b.nodes[b.next.Add(1)%uint64(len(b.nodes))]
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		log.Printf("bind %s/%s to %s: %v", pod.Namespace, pod.Name, node, err)
		return
	}
	bound := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
	bound.Spec.NodeName = node
	b.events <- bound
}

func (b *binder) tell(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) {
	now := metav1.NowMicro()
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", pod.Name, time.Now().UnixNano())},
		EventTime:           now,
		ReportingController: b.name,
		ReportingInstance:   b.name + "-null-binder",
		Action:              "Binding",
		Reason:              "Scheduled",
		Regarding:           corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Note:                fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, pod.Spec.NodeName),
		Type:                corev1.EventTypeNormal,
	}
	if _, err := client.EventsV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		log.Printf("event of %s/%s: %v", pod.Namespace, pod.Name, err)
	}
}
