package workloads

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/ownercache"
)

const (
	// look is the first interval at which a request checks whether a listed kind has been installed.
	look = 10 * time.Second
	// longest is the longest interval. The interval doubles each time the kind is still not installed.
	longest = time.Minute
)

// Objects provides the objects of kinds that may be listed, installed and removed at any time. Implementations must be
// safe for concurrent use.
type Objects interface {
	// Served returns the kinds whose objects are known at present.
	Served() []schema.GroupVersionKind
	// Get returns an object, or nil if the object does not exist. If known is false, Get cannot tell whether the
	// object exists.
	Get(kind schema.GroupKind, namespace, name string) (object *unstructured.Unstructured, known bool)
	// OnChange registers a function to be called on changes. f is called with each object that was created, changed or
	// deleted, and with nil when all objects of a kind have become known. Call OnChange before the manager starts.
	OnChange(f func(kind schema.GroupKind, object client.Object))
}

// Manager lists the methods of a controller-runtime manager that Watches use.
type Manager interface {
	GetConfig() *rest.Config
	GetHTTPClient() *http.Client
	GetScheme() *runtime.Scheme
	GetRESTMapper() meta.RESTMapper
	GetLogger() logr.Logger
}

// Watches watches the kinds of a [List], as long as the kinds are listed and installed. Make Watches with Watch.
type Watches struct {
	mgr       Manager
	list      *List
	namespace string // empty means all namespaces
	keep      toolscache.TransformFunc
	clock     clock.WithDelayedExecution
	log       logr.Logger
	changed   []func(schema.GroupKind, client.Object)

	running sync.WaitGroup
	lost    chan schema.GroupVersionKind
	missing map[schema.GroupVersionKind]missing // used only by the goroutine of Start

	mu      sync.RWMutex
	watches map[schema.GroupVersionKind]*oneWatch
}

// missing describes a kind that is listed but not installed.
type missing struct {
	pause time.Duration
	next  time.Time // when to ask the API server again about the kind
}

// oneWatch is the watch of a single kind.
type oneWatch struct {
	index  *ownercache.Index[*unstructured.Unstructured]
	cancel context.CancelFunc
}

// Watch returns watches of the listed kinds in a namespace; if namespace is empty, in all namespaces. keep reduces each
// object before the object is cached. Add the Watches to the manager after the last call of OnChange. The Watches run
// only on the leader.
func Watch(mgr Manager, list *List, namespace string, keep toolscache.TransformFunc) *Watches {
	return &Watches{
		mgr: mgr, list: list, namespace: namespace, keep: keep, clock: clock.RealClock{}, log: mgr.GetLogger().WithName("kinds"),
		lost: make(chan schema.GroupVersionKind), missing: map[schema.GroupVersionKind]missing{}, watches: map[schema.GroupVersionKind]*oneWatch{},
	}
}

// OnChange implements Objects.
func (w *Watches) OnChange(f func(schema.GroupKind, client.Object)) {
	w.changed = append(w.changed, f)
}

// Served implements Objects. The kinds are returned in the order of the list.
func (w *Watches) Served() (kinds []schema.GroupVersionKind) {
	listed, _ := w.list.now()
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, kind := range listed {
		if watch, ok := w.watches[kind]; ok && watch.index.HasSynced() {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Get implements Objects.
func (w *Watches) Get(kind schema.GroupKind, namespace, name string) (object *unstructured.Unstructured, known bool) {
	for _, served := range w.Served() {
		if served.GroupKind() != kind {
			continue
		}
		w.mu.RLock()
		watch := w.watches[served]
		w.mu.RUnlock()
		if watch == nil {
			return nil, false
		}
		object, _ = watch.index.Get(namespace, name)
		return object, true
	}
	return nil, false
}

// NeedLeaderElection returns true.
func (*Watches) NeedLeaderElection() bool { return true }

// Start starts and ends watches as the list changes, until ctx ends.
func (w *Watches) Start(ctx context.Context) error {
	defer w.running.Wait()
	for {
		next := w.list.next() // the channel is taken before the list is read, so no change is missed
		timer := w.clock.NewTimer(look)
		again := timer.C()
		if !w.adjust(ctx) {
			again = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		case <-again:
		case kind := <-w.lost:
			if w.end(kind) { // the kind was installed until now, so its objects were known
				delete(w.missing, kind)
			}
			w.misses(kind)
		}
		timer.Stop()
	}
}

// misses sets the time of the next check whether a missing kind has been installed, each time after a longer pause.
// Only the first call for a kind logs the missing kind.
func (w *Watches) misses(kind schema.GroupVersionKind) {
	m, again := w.missing[kind]
	if !again {
		w.log.Info("A kind is listed and not installed; it is looked for", "kind", kind.String())
	}
	m.pause = min(max(2*m.pause, look), longest)
	m.next = w.clock.Now().Add(m.pause)
	w.missing[kind] = m
}

// adjust starts and ends watches so that all listed kinds are watched. The result is true if a listed kind cannot be
// watched yet.
func (w *Watches) adjust(ctx context.Context) (waits bool) {
	listed, _ := w.list.now()
	w.mu.RLock()
	running := make([]schema.GroupVersionKind, 0, len(w.watches))
	for kind := range w.watches {
		running = append(running, kind)
	}
	w.mu.RUnlock()
	for _, kind := range running {
		if !slices.Contains(listed, kind) {
			w.log.Info("A kind is not listed any more", "kind", kind.String())
			w.end(kind)
		}
	}
	maps.DeleteFunc(w.missing, func(kind schema.GroupVersionKind, _ missing) bool { return !slices.Contains(listed, kind) })
	for _, kind := range listed {
		if slices.Contains(running, kind) {
			continue
		}
		if m, is := w.missing[kind]; is && w.clock.Now().Before(m.next) {
			waits = true
			continue
		}
		err := w.begin(ctx, kind)
		switch {
		case err == nil:
			continue
		case meta.IsNoMatchError(err):
			w.misses(kind)
		default:
			w.log.Error(err, "Watching a kind", "kind", kind.String())
		}
		waits = true
	}
	return waits
}

// end ends the watch of a kind. The result is true if the objects of the kind were known.
func (w *Watches) end(kind schema.GroupVersionKind) (known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch, ok := w.watches[kind]
	if !ok {
		return false
	}
	watch.cancel()
	delete(w.watches, kind)
	return watch.index.HasSynced()
}

// isServed returns nil if the API server serves a kind. isServed sends a request to the API server, because a
// RESTMapper still contains kinds that have been removed.
func (w *Watches) isServed(kind schema.GroupVersionKind) error {
	asked, err := discovery.NewDiscoveryClientForConfigAndClient(w.mgr.GetConfig(), w.mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("asking whether %s is served: %w", kind, err)
	}
	list, err := asked.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking whether %s is served: %w", kind, err)
	}
	if err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
		return nil
	}
	return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}

// begin starts to watch a kind, in a cache of its own that ends with the watch.
func (w *Watches) begin(ctx context.Context, kind schema.GroupVersionKind) error {
	if err := w.isServed(kind); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	objects, index, err := w.cacheOf(ctx, kind)
	if err != nil {
		cancel()
		return err
	}
	w.mu.Lock()
	w.watches[kind] = &oneWatch{index, cancel}
	w.mu.Unlock()
	w.running.Go(func() {
		if err := objects.Start(ctx); err != nil {
			w.log.Error(err, "The cache of a kind has ended", "kind", kind.String())
		}
	})
	w.running.Go(func() {
		if !toolscache.WaitForCacheSync(ctx.Done(), index.HasSynced) {
			return
		}
		w.log.Info("A kind is watched", "kind", kind.String())
		for _, object := range index.All() { // before, Get has returned known = false
			w.tell(kind.GroupKind(), object)
		}
		w.tell(kind.GroupKind(), nil)
	})
	return nil
}

func (w *Watches) cacheOf(ctx context.Context, kind schema.GroupVersionKind) (cache.Cache, *ownercache.Index[*unstructured.Unstructured], error) {
	options := cache.Options{
		HTTPClient: w.mgr.GetHTTPClient(), Scheme: w.mgr.GetScheme(), Mapper: w.mgr.GetRESTMapper(), DefaultTransform: w.keep,
		DefaultWatchErrorHandler: func(watch context.Context, r *toolscache.Reflector, err error) {
			if !apierrors.IsNotFound(err) {
				toolscache.DefaultWatchErrorHandler(watch, r, err) // the default handler logs the error
				return
			}
			select { // the CRD was removed
			case w.lost <- kind:
			case <-ctx.Done():
			}
		},
	}
	if w.namespace != "" {
		options.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", w.namespace)
	}
	objects, err := cache.New(w.mgr.GetConfig(), options)
	if err != nil {
		return nil, nil, fmt.Errorf("making the cache of %s: %w", kind, err)
	}
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kind)
	index, err := ownercache.NewIndex(ctx, objects, like)
	if err != nil {
		return nil, nil, err
	}
	informer, err := objects.GetInformer(ctx, like, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, err
	}
	told := func(object any) { w.seen(kind.GroupKind(), object) }
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: told, UpdateFunc: func(_, after any) { told(after) }, DeleteFunc: told,
	})
	return objects, index, err
}

func (w *Watches) seen(kind schema.GroupKind, object any) {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	if object, ok := object.(client.Object); ok {
		w.tell(kind, object)
	}
}

func (w *Watches) tell(kind schema.GroupKind, object client.Object) {
	for _, f := range w.changed {
		f(kind, object)
	}
}
