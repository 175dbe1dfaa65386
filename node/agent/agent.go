package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

// PodsAwaited means that the API server has not listed the Pods of the Node yet.
const PodsAwaited reason.Code = "PodsAwaited"

// Options are the options of an Agent. The zero value is usable.
type Options struct {
	WorkerOptions

	// Manager are the options of the manager below. New sets the name of the Node for the cache of Pods, and switches
	// leader election off.
	Manager manager.Options
	// Runtimes are the Node's container runtimes; nil looks at the usual places for sockets (cri.Usual). The agent
	// starts and ends the Runtimes.
	Runtimes *cri.Runtimes
	// Workers is the number of Pods worked on side by side; 0 means 8.
	Workers int
}

const defaultWorkers = 8

// Agent works on the Pods of a Node. Make an Agent with New.
type Agent struct {
	worker   *Worker
	manager  manager.Manager
	runtimes *cri.Runtimes
	loop     atomic.Pointer[loop] // nil before the start
}

// loop is the running loop over Pods.
type loop struct {
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
	pods  cache.Informer
}

// New returns the agent of a Node that works with the API server of a configuration. New asks nobody. An error is about
// the arguments.
func New(config *rest.Config, node string, work Work, o Options) (*Agent, error) {
	a := &Agent{runtimes: o.Runtimes}
	if a.runtimes == nil {
		a.runtimes = cri.NewRuntimes(func() []string { return cri.Paths(cri.Usual()) })
	}
	mgr, err := ctrl.NewManager(config, managerOptions(node, o.Manager))
	if err != nil {
		return nil, fmt.Errorf("agent of Node %q: %w", node, err)
	}
	a.manager = mgr
	wake := o.Wake
	o.Wake = func(pod types.NamespacedName) {
		a.Wake(pod)
		if wake != nil {
			wake(pod)
		}
	}
	if a.worker, err = NewWorker(node, mgr.GetClient(), a.runtimes, work, o.WorkerOptions); err != nil {
		return nil, err
	}
	a.runtimes.OnChange(a.wakeAll)
	return a, a.add(cmp.Or(o.Workers, defaultWorkers))
}

// managerOptions restricts the cache to the Pods of the Node.
func managerOptions(node string, o manager.Options) manager.Options {
	o.LeaderElection = false
	o.Cache.ByObject = maps.Clone(o.Cache.ByObject)
	if o.Cache.ByObject == nil {
		o.Cache.ByObject = map[client.Object]cache.ByObject{}
	}
	pods := cache.ByObject{Transform: cache.TransformStripManagedFields()}
	for object, of := range o.Cache.ByObject {
		if _, isPod := object.(*corev1.Pod); isPod {
			pods = of
			delete(o.Cache.ByObject, object)
		}
	}
	pods.Field = fields.OneTermEqualSelector("spec.nodeName", node)
	o.Cache.ByObject[&corev1.Pod{}] = pods
	o.MapperProvider = knowsPods(o.MapperProvider)
	return o
}

// knowsPods adds the Pod to a mapper: the start must not need an answer of the API server.
func knowsPods(next func(*rest.Config, *http.Client) (meta.RESTMapper, error)) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	if next == nil {
		next = apiutil.NewDynamicRESTMapper
	}
	return func(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
		rest, err := next(config, c)
		if err != nil {
			return nil, err
		}
		pods := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
		pods.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
		return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{pods, rest}}, nil
	}
}

// Rests after errors. A runtime comes back within seconds.
const (
	firstRest   = 100 * time.Millisecond
	longestRest = 30 * time.Second
	// ever is the time for a list of the Pods: an API server that is away is no end of the agent.
	ever = math.MaxInt64
)

// add adds the loop over Pods to the manager.
func (a *Agent) add(workers int) error {
	loop, err := controller.New("agent", a.manager, controller.Options{
		Reconciler: a.worker, MaxConcurrentReconciles: workers, CacheSyncTimeout: ever, SkipNameValidation: ptr.To(true),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRest, longestRest),
	})
	if err != nil {
		return fmt.Errorf("the agent's loop over Pods: %w", err)
	}
	for _, from := range []source.Source{
		source.Kind(a.manager.GetCache(), &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{}),
		source.Func(a.begin),
	} {
		if err := loop.Watch(from); err != nil {
			return fmt.Errorf("the agent's events: %w", err)
		}
	}
	return nil
}

// begin is told of the start of the loop. An informer made earlier would have the manager wait for the list of the Pods
// before its own start, where the manager does not look at its context.
func (a *Agent) begin(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	pods, err := a.manager.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("the agent's cache of Pods: %w", err)
	}
	a.loop.Store(&loop{queue: queue, pods: pods})
	return nil
}

// Manager is the manager below, for further caches and runnables: add them before Run. An informer made before Run holds
// Run up until the API server has answered, whatever the context.
func (a *Agent) Manager() manager.Manager { return a.manager }

// Wake has the work called for a Pod soon. Wake does not wait, and does nothing before Run: each Pod is looked at after
// the start.
func (a *Agent) Wake(pod types.NamespacedName) {
	if loop := a.loop.Load(); loop != nil {
		loop.queue.Add(ctrl.Request{NamespacedName: pod})
	}
}

// wakeAll has the work called for all Pods.
func (a *Agent) wakeAll(ctx context.Context) {
	if a.loop.Load() == nil {
		return
	}
	var pods corev1.PodList
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if a.manager.GetClient().List(ctx, &pods, client.UnsafeDisableDeepCopy) != nil {
		return // not listed yet: each Pod is to be looked at
	}
	for i := range pods.Items {
		a.Wake(client.ObjectKeyFromObject(&pods.Items[i]))
	}
}

// Run works until the context ends. An API server or a runtime that is away is no error: see Waiting.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	// Beside the manager: the manager starts runnables after the first list of the Pods.
	all.Go(func() { _ = a.worker.Start(ctx) }) // has no errors
	all.Go(func() { _ = a.runtimes.Start(ctx) })
	return a.manager.Start(ctx)
}

// Waiting says what the agent waits for: the list of the Pods, a runtime; nil for nothing.
func (a *Agent) Waiting() (why reason.List) {
	if loop := a.loop.Load(); loop == nil || !loop.pods.HasSynced() {
		why = append(why, reason.Reason{
			Code: PodsAwaited, Detail: "the Pods of the Node have not been listed yet",
			Remedy: "see whether the API server answers, and whether the agent may list and watch Pods",
		})
	}
	return append(why, a.runtimes.Missing()...)
}
