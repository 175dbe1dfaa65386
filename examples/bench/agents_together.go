package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/daemon"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest/onnode"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/podview"
)

// together runs the agents of all Nodes in the process of the bench command, with a single watch for Pods, a single
// watch for requests, a single queue, and a Worker for each Node. A Worker is connected through a pipe to the
// simulated container runtime of its Node.
type together struct {
	pods     cache.Store
	requests cache.SharedIndexInformer
	cached   *onnode.Cached
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	workers  map[string]*agent.Worker
	runtimes []*fakecri.Server
	url      string
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

const togetherWorkers = 64

func startTogether(ctx context.Context, b *agentBench) (agents, error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &together{
		pods: b.pods.GetStore(), workers: map[string]*agent.Worker{}, cancel: cancel,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 30*time.Second)),
	}
	config := rest.CopyConfig(b.Plane.Config())
	config.UserAgent, config.QPS = agentName, -1
	err := t.watch(ctx, config, b.pods)
	for i := 0; i < b.o.nodes && err == nil; i++ {
		err = t.add(ctx, config, b.view, nodeName(i))
	}
	if err == nil {
		err = t.serve(ctx)
	}
	if err != nil {
		t.stop()
		return nil, err
	}
	for range togetherWorkers {
		t.running.Go(func() { t.run(ctx) })
	}
	return t, nil
}

// watch adds a Pod to the queue after each event of the Pod and after each event of a request for the Pod.
func (t *together) watch(ctx context.Context, config *rest.Config, pods cache.SharedIndexInformer) error {
	c, err := manager.NewClient(config)
	if err != nil {
		return err
	}
	active := client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{apps.LabelRequestActive: "true"})}
	t.requests = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &v1beta1.ContainerRecreateRequestList{}
			return list, c.List(ctx, list, &client.ListOptions{Raw: &o}, active)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &v1beta1.ContainerRecreateRequestList{}, &client.ListOptions{Raw: &o}, active)
		},
	}, &v1beta1.ContainerRecreateRequest{}, 0, cache.Indexers{})
	t.cached, err = onnode.NewCached(t.requests.GetIndexer(), v1beta1.GroupVersion.WithResource(containerrecreaterequest.Row().Resource).GroupResource(),
		func(ctx context.Context, name types.NamespacedName, patch []byte) (string, error) {
			request := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
			err := c.Status().Patch(ctx, request, client.RawPatch(types.MergePatchType, patch))
			return request.ResourceVersion, err
		})
	if err != nil {
		return err
	}
	_, err = pods.AddEventHandler(handler(t.wake))
	_, errOfRequests := t.requests.AddEventHandler(handler(t.wake))
	if err := errors.Join(err, errOfRequests); err != nil {
		return err
	}
	t.running.Go(func() { t.requests.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), t.requests.HasSynced) {
		return fmt.Errorf("listing requests: %w", context.Cause(ctx))
	}
	return nil
}

// handler calls wake with the Pod of each event.
func handler(wake func(types.NamespacedName)) cache.ResourceEventHandlerFuncs {
	woken := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		switch o := object.(type) {
		case *corev1.Pod:
			wake(types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
		case *v1beta1.ContainerRecreateRequest:
			wake(types.NamespacedName{Namespace: o.Namespace, Name: o.Spec.PodName})
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: woken, UpdateFunc: func(_, object any) { woken(object) }, DeleteFunc: woken}
}

func (t *together) wake(pod types.NamespacedName) { t.queue.Add(pod) }

// Pod implements agent.Pods.
func (t *together) Pod(name types.NamespacedName) *corev1.Pod {
	object, _, _ := t.pods.GetByKey(name.String()) // the store of an informer returns no errors
	pod, _ := object.(*corev1.Pod)
	return pod
}

// add starts the runtime and the Worker of a Node.
func (t *together) add(ctx context.Context, config *rest.Config, view *podview.View, node string) error {
	server, err := fakecri.Start(fakecri.Options{Machine: view.Node(node), Name: podview.Runtime})
	if err != nil {
		return err
	}
	t.runtimes = append(t.runtimes, server)
	runtimes := cri.NewRuntimes(nil, cri.NewDialed(node, func(ctx context.Context) (net.Conn, error) { return server.Dial(ctx, "") }))
	ways, err := daemon.NewWays(config, node, t.cached)
	if err != nil {
		return err
	}
	worker, err := agent.NewWorker(node, t, runtimes, daemon.Work(ways), agent.WorkerOptions{Wake: t.wake, HookFailed: ways.HookFailed})
	if err != nil {
		return err
	}
	t.workers[node] = worker
	runtimes.Look(ctx)
	t.running.Go(func() { _ = runtimes.Start(ctx) }) // Start of both returns no errors
	t.running.Go(func() { _ = worker.Start(ctx) })
	return nil
}

// run processes the queue until the queue is shut down.
func (t *together) run(ctx context.Context) {
	for {
		name, over := t.queue.Get()
		if over {
			return
		}
		if pod := t.Pod(name); pod != nil {
			again, err := t.workers[pod.Spec.NodeName].Do(ctx, name)
			switch {
			case err != nil:
				t.queue.AddRateLimited(name)
			case again > 0:
				t.queue.Forget(name)
				t.queue.AddAfter(name, again)
			default:
				t.queue.Forget(name)
			}
		}
		t.queue.Done(name)
	}
}

// serve serves the metrics of this process.
func (t *together) serve(ctx context.Context) error {
	port, err := child.FreePort(ctx, "127.0.0.1")
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	address := fmt.Sprintf("127.0.0.1:%d", port)
	t.url = "http://" + address + "/metrics"
	t.running.Go(func() { _ = daemon.Serve(ctx, address, daemon.Metrics(registry)) })
	return nil
}

func (t *together) metrics() []string { return []string{t.url} }

func (t *together) connections() (n int) {
	for _, server := range t.runtimes {
		n += server.Connections()
	}
	return n
}

func (t *together) stop() {
	t.cancel()
	t.queue.ShutDown()
	t.running.Wait()
	for _, server := range t.runtimes {
		server.Stop()
	}
}
