package agent

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

// PodsAwaited means that the API server has not listed the Pods of the Node yet.
const PodsAwaited reason.Code = "PodsAwaited"

// Options are options of an Agent. The zero value is usable.
type Options struct {
	WorkerOptions

	// Runtimes are the Node's container runtimes; if nil, the agent looks for sockets at the usual paths (cri.Usual).
	// The agent starts and stops these Runtimes.
	Runtimes *cri.Runtimes
	// Workers is the number of Pods processed at the same time; 0 means 8.
	Workers int
	// Keep removes fields from each Pod before the agent stores the Pod in memory. If Keep is nil, the agent removes
	// metadata.managedFields.
	Keep cache.TransformFunc
}

const defaultWorkers = 8

// These are the shortest and the longest wait after an error. The waits are short because a container runtime that
// restarts is usually available within seconds.
const (
	firstRest   = 100 * time.Millisecond
	longestRest = 30 * time.Second
)

// Agent processes the Pods of a Node. An Agent is safe for concurrent use. Make an Agent with New.
type Agent struct {
	worker   *Worker
	workers  int
	runtimes *cri.Runtimes
	pods     cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// New returns the agent of a Node. config names the API server. New sends no request. An error means that an argument
// is invalid. An Agent can be run only once.
func New(config *rest.Config, node string, work Work, o Options) (*Agent, error) {
	client, err := NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("agent of Node %q: %w", node, err)
	}
	a := &Agent{
		workers: cmp.Or(o.Workers, defaultWorkers), runtimes: o.Runtimes,
		pods: cache.NewSharedIndexInformer(
			cache.NewListWatchFromClient(client, "pods", "", fields.OneTermEqualSelector("spec.nodeName", node)), &corev1.Pod{}, 0, cache.Indexers{}),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRest, longestRest)),
	}
	if a.runtimes == nil {
		a.runtimes = cri.NewRuntimes(func() []string { return cri.Paths(cri.Usual()) })
	}
	a.runtimes.OnChange(func(context.Context) { a.wakeAll() })
	wake := o.Wake
	o.Wake = func(pod types.NamespacedName) {
		a.Wake(pod)
		if wake != nil {
			wake(pod)
		}
	}
	if a.worker, err = NewWorker(node, cached{a.pods.GetStore()}, a.runtimes, work, o.WorkerOptions); err != nil {
		return nil, err
	}
	return a, a.listen(o.Keep)
}

// NewClient returns a client for Pods and events that needs little memory, because its scheme contains no other kinds.
func NewClient(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return rest.RESTClientFor(config)
}

// cached implements Pods by the store of an informer.
type cached struct{ cache.Store }

// Pod implements Pods.
func (c cached) Pod(name types.NamespacedName) *corev1.Pod {
	object, _, err := c.GetByKey(name.String())
	pod, ok := object.(*corev1.Pod)
	if err != nil || !ok {
		return nil
	}
	return pod
}

// listen adds an event handler that enqueues each changed Pod.
func (a *Agent) listen(keep cache.TransformFunc) error {
	if keep == nil {
		keep = withoutManagedFields
	}
	if err := a.pods.SetTransform(keep); err != nil {
		return fmt.Errorf("the agent's cache: %w", err)
	}
	wake := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			if namespace, name, err := cache.SplitMetaNamespaceKey(key); err == nil {
				a.Wake(types.NamespacedName{Namespace: namespace, Name: name})
			}
		}
	}
	_, err := a.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, object any) { wake(object) }, DeleteFunc: wake})
	if err != nil {
		return fmt.Errorf("the agent's events: %w", err)
	}
	return nil
}

func withoutManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// Wake makes the agent call work for a Pod soon. Wake does not wait.
func (a *Agent) Wake(pod types.NamespacedName) { a.queue.Add(pod) }

// wakeAll makes the agent call work for all Pods.
func (a *Agent) wakeAll() {
	for _, object := range a.pods.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			a.Wake(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
}

// Run processes Pods until the context ends, and returns after all calls of work and all stops have ended. An API
// server or a container runtime that is unavailable causes no error: see Waiting.
func (a *Agent) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { _ = a.worker.Start(ctx) }) // Start returns no errors
	all.Go(func() { _ = a.runtimes.Start(ctx) })
	all.Go(func() { a.pods.RunWithContext(ctx) })
	for range a.workers {
		all.Go(func() { a.run(ctx) })
	}
	<-ctx.Done()
	a.queue.ShutDown()
	all.Wait()
	return nil
}

// run processes the queue until the queue is shut down.
func (a *Agent) run(ctx context.Context) {
	for {
		pod, over := a.queue.Get()
		if over {
			return
		}
		a.do(ctx, pod)
		a.queue.Done(pod)
	}
}

func (a *Agent) do(ctx context.Context, pod types.NamespacedName) {
	log := logr.FromContextOrDiscard(ctx).WithValues("pod", pod.String())
	again, err := a.worker.Do(logr.NewContext(ctx, log), pod)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.Error(err, "Work failed, and is tried again")
		a.queue.AddRateLimited(pod)
	default:
		if a.queue.Forget(pod); again > 0 {
			a.queue.AddAfter(pod, again)
		}
	}
}

// Waiting says what the agent waits for: the list of Pods, or a container runtime; nil if nothing.
func (a *Agent) Waiting() (why reason.List) {
	if !a.pods.HasSynced() {
		why = append(why, reason.Reason{
			Code: PodsAwaited, Detail: "the Pods of the Node have not been listed yet",
			Remedy: "see whether the API server answers, and whether the agent may list and watch Pods",
		})
	}
	return append(why, a.runtimes.Missing()...)
}
