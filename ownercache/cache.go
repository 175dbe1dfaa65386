package ownercache

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/expectations/trackedclient"
)

// Manager is the part of a controller-runtime manager that a Cache needs.
type Manager interface {
	GetCache() cache.Cache
	GetClient() client.Client
	GetAPIReader() client.Reader
	GetScheme() *runtime.Scheme
	Add(manager.Runnable) error
}

// Options are options of a Cache. The zero value is usable.
type Options struct {
	// Client is the client for writes. If nil, the manager's client is used.
	Client client.Client
	// Claims says that PersistentVolumeClaims belong to the owners or to their Pods with ordinals: Cache.Claims then
	// caches the claims.
	Claims bool
	// Nodes says that the controller creates a Pod for each of many Nodes: after a change of leader, the first
	// reconciles then also wait until the cache of Nodes is up to date. If the manager's cache is restricted to a
	// namespace, Nodes must not be restricted, because Nodes have no namespace. Set ControllerOptions.Watch to a
	// source that enqueues owners on changes of Nodes, such as WatchNodes.
	Nodes bool
	// Owned are caches of objects, such as ConfigMaps, for owners that write and use these objects instead of Pods
	// and revisions. If Owned is set, Cache.Pods and Cache.Revisions are nil, a View has neither Pods nor revisions,
	// and only changes of the owner itself enqueue the owner: set ControllerOptions.Watch, to enqueue the owner on
	// changes of the objects. Options and methods for Pods must then not be used: Claims, Nodes, Members, ObservePod,
	// OwnerOf, IsNewest, AddPodController.
	Owned []trackedclient.Source
	// Beside are caches of objects that owners write and use in addition to Pods and revisions, such as requests to a
	// node agent. Changes of these objects do not enqueue an owner: set ControllerOptions.Watch to a source that does.
	Beside []trackedclient.Source
	// Members returns the names of the owners to which a Pod belongs. Members is for owners that manage Pods controlled
	// by somebody else, for example Pods into which the owner has injected a container. The result must depend only on
	// the Pod. If Members is set, a View has the Pods for which Members names the owner, whoever controls these Pods,
	// and their events enqueue the owner. If owners have a namespace, a View has only Pods of the owner's namespace. If
	// Members is nil, a Pod belongs to its controller.
	Members func(*corev1.Pod) []string
	// RevisionNamespace is the namespace in which revisions of cluster-scoped owners are stored. Objects of other
	// namespaces with an owner reference to such an owner are ignored: anybody with write access to a namespace can
	// write owner references in this namespace. If RevisionNamespace is empty, cluster-scoped owners have no revisions.
	RevisionNamespace string
	// Namespace is the namespace to which the manager's cache is restricted; empty means all namespaces.
	Namespace string
	// Alarm is how long the cache may not show the controller's own writes before the Observer is notified; 0 means a
	// minute.
	Alarm time.Duration
	// DropLate lets an owner's reconcile continue after Alarm although the cache does not show all of the owner's
	// writes. DropLate is not safe: the owner may create Pods twice. If false, the owner waits, and after each Alarm
	// a read from the API server finds out whether the cache is complete nevertheless.
	DropLate bool
	// NoBarrier lets reconciles begin before the cache is known to show the writes of an earlier leader. NoBarrier is
	// for tests that never start the manager.
	NoBarrier bool
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Observer is notified of waits for the controller's own writes; optional.
	Observer expectations.Observer
}

// complete fills in defaults, and returns an error for contradictory options.
func (o Options) complete(mgr Manager, kind string) (Options, error) {
	if len(o.Owned) > 0 && (o.Claims || o.Nodes || o.Members != nil || len(o.Beside) > 0) {
		return o, fmt.Errorf("ownercache: Options.Owned of %s is for owners without Pods; Claims, Nodes, Members and Beside are about Pods", kind)
	}
	if o.Client == nil {
		o.Client = mgr.GetClient()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

// Cache finds the owners of a kind and the objects that the owners control. A Cache is safe for concurrent use. Make a
// Cache with New.
type Cache[O client.Object] struct {
	// Owners, Pods and Revisions find single objects. Claims and Nodes are nil unless their options are set; Pods and
	// Revisions are nil if Options.Owned is set.
	Owners    *Index[O]
	Pods      *Index[*corev1.Pod]
	Revisions *Index[*appsv1.ControllerRevision]
	Claims    *Index[*corev1.PersistentVolumeClaim]
	Nodes     *Index[*corev1.Node]

	kind      schema.GroupVersionKind
	clients   *trackedclient.Clients
	apiReader client.Reader
	options   Options
	queue     atomic.Pointer[queue] // queue of the owners' controller
	paces     paces

	mu       sync.RWMutex
	gone     []func(types.UID)
	replaced []func(owner types.UID, pod *corev1.Pod)
}

// claimIndex is the name of the index of Pods by the claims that the Pods use.
const claimIndex = "workloadkit/claim"

// New returns a cache for the owners of a kind, which the manager's scheme must know. New adds a runnable to the
// manager: until the cache shows the writes of an earlier leader, Observe makes all owners wait. Call New before the
// manager starts. The error comes from NewIndex, or from the scheme.
func New[O client.Object](ctx context.Context, mgr Manager, owner O, options Options) (*Cache[O], error) {
	kind, err := apiutil.GVKForObject(owner, mgr.GetScheme())
	if err != nil {
		return nil, fmt.Errorf("ownercache: kind of %T: %w", owner, err)
	}
	if options, err = options.complete(mgr, kind.Kind); err != nil {
		return nil, err
	}
	c := &Cache[O]{kind: kind, apiReader: mgr.GetAPIReader(), options: options, paces: paces{clock: options.Clock, at: map[types.UID]pace{}}}
	sources, err := c.index(ctx, mgr.GetCache(), owner)
	if err != nil {
		return nil, err
	}
	if options.Namespace != "" {
		for i := range sources {
			sources[i].Restrict = []client.ListOption{client.InNamespace(options.Namespace)}
		}
	}
	if options.Nodes {
		if c.Nodes, err = NewIndex(ctx, mgr.GetCache(), &corev1.Node{}); err != nil {
			return nil, err
		}
		sources = append(sources, trackedclient.Nodes(c.Nodes))
	}
	c.clients, err = trackedclient.NewClients(options.Client, c.apiReader, trackedclient.Options{
		Exists: c.exists,
		Tracker: expectations.Options{
			Clock: options.Clock, Alarm: options.Alarm, Observer: options.Observer, NoBarrier: options.NoBarrier,
		},
	}, sources...)
	if err != nil {
		return nil, err
	}
	if options.Members != nil {
		if err := c.Pods.Ensure(c.memberIndex(), c.memberOf); err != nil {
			return nil, err
		}
	}
	if err := c.watchGone(); err != nil {
		return nil, err
	}
	if err := mgr.Add(c.clients); err != nil {
		return nil, fmt.Errorf("ownercache: adding the start-up check of %s: %w", kind.Kind, err)
	}
	return c, nil
}

// index makes the indexes, and the sources for trackedclient.
func (c *Cache[O]) index(ctx context.Context, informers cache.Informers, owner O) (sources []trackedclient.Source, err error) {
	if c.Owners, err = NewIndex(ctx, informers, owner); err != nil {
		return nil, err
	}
	plural, _ := meta.UnsafeGuessKindToResource(c.kind)
	sources = []trackedclient.Source{trackedclient.Owners(plural.GroupResource(), c.kind, c.Owners)}
	if len(c.options.Owned) > 0 {
		return append(sources, c.options.Owned...), nil
	}
	if c.Pods, err = NewIndex(ctx, informers, &corev1.Pod{}); err != nil {
		return nil, err
	}
	if c.Revisions, err = NewIndex(ctx, informers, &appsv1.ControllerRevision{}); err != nil {
		return nil, err
	}

	sources = append(sources, trackedclient.Pods(c.Pods), trackedclient.Revisions(c.Revisions))
	sources = append(sources, c.options.Beside...)
	if !c.options.Claims {
		return sources, nil
	}
	if c.Claims, err = NewIndex(ctx, informers, &corev1.PersistentVolumeClaim{}); err != nil {
		return nil, err
	}
	if err := c.Pods.Ensure(claimIndex, claimsUsedBy); err != nil {
		return nil, err
	}
	return append(sources, trackedclient.Claims(c.Claims)), nil
}

// claimsUsedBy returns an index key for each claim named in a Pod's volumes, whoever owns the Pod.
func claimsUsedBy(pod *corev1.Pod) (keys []string) {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			keys = append(keys, pod.Namespace+"/"+source.ClaimName)
		}
	}
	return keys
}

// UsersOf returns the Pods that use a claim, regardless of their owners. UsersOf panics without the option Claims.
func (c *Cache[O]) UsersOf(claim *corev1.PersistentVolumeClaim) []*corev1.Pod {
	return c.Pods.By(claimIndex, claim.Namespace+"/"+claim.Name)
}

// Kind returns the owners' kind, in the version that the scheme reports.
func (c *Cache[O]) Kind() schema.GroupVersionKind { return c.kind }

// Clients returns the Clients behind the views, for writes outside of views and for checks of awaited writes.
func (c *Cache[O]) Clients() *trackedclient.Clients { return c.clients }

// APIReader returns a reader that reads from the API server, not from a cache.
func (c *Cache[O]) APIReader() client.Reader { return c.apiReader }

// View is an owner and its controlled objects in the cache. Pods, revisions and claims are in no particular order. The
// caller may modify the slices but not the objects, which belong to the cache. The claims of pvc.Numbered have no
// controller, so a View does not contain them: use Cache.Claims.
type View[O client.Object] struct {
	// Owner is a copy of the cache's object.
	Owner     O
	Pods      []*corev1.Pod
	Revisions []*appsv1.ControllerRevision
	Claims    []*corev1.PersistentVolumeClaim
	// Client writes for the owner: the next Observe waits until the cache shows these writes.
	Client client.Client
	// Now is the time at which the View was made.
	Now time.Time

	cache *Cache[O]
	seen  O // the owner as an object of the cache

	// sent is the status last written through the view, and version the owner's version after this write; empty if
	// there was none.
	sent    []byte
	version string
}

// Object returns the owner, for packages that do not know the owner's type.
func (v *View[O]) Object() client.Object { return v.Owner }

// Time returns the field Now.
func (v *View[O]) Time() time.Time { return v.Now }

// InDoubt reports whether a write of the present reconcile got no response. Only the next Observe finds out whether
// the write happened. Until then, finish the current kind of action on other objects, but begin no other kind of
// action.
func (v *View[O]) InDoubt() bool { return v.cache.clients.InDoubt(v.Owner) }

// For returns a client for writes to a Pod of the owner: both the next Observe and the next ObservePod wait for these
// writes. See ObservePod.
func (v *View[O]) For(pod *corev1.Pod) client.Client {
	return v.cache.clients.For(v.Owner.GetUID(), pod.UID)
}

// Gone reports whether a Pod is no longer in the cache. Gone is false for objects of other kinds.
func (v *View[O]) Gone(object metav1.Object) bool {
	pod, ok := object.(*corev1.Pod)
	if !ok || v.cache.Pods == nil {
		return false
	}
	_, exists := v.cache.Pods.ByUID(pod.UID)
	return !exists
}

// WakeAfter requeues the owner after the duration.
func (v *View[O]) WakeAfter(d time.Duration) {
	if q := v.cache.queue.Load(); q != nil {
		(*q).AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(v.Owner)}, d)
	}
}

// Observe begins a reconcile of an owner, and returns the owner's View. If the view is nil, return the result and the
// error from the reconciler: the owner was deleted, or the cache does not show all writes for the owner. Observe also
// returns a View of an owner with a deletionTimestamp. Observe returns an error if an earlier write got no response,
// and reading the object from the API server fails.
func (c *Cache[O]) Observe(ctx context.Context, req ctrl.Request) (*View[O], ctrl.Result, error) {
	cached, ok := c.Owners.Get(req.Namespace, req.Name)
	if !ok {
		return nil, ctrl.Result{}, nil
	}
	pending, err := c.clients.Check(ctx, cached)
	switch {
	case err != nil:
		return nil, ctrl.Result{}, fmt.Errorf("%s %s: comparing the cache with own writes: %w", c.kind.Kind, req, err)
	case pending != nil && pending.Late && c.options.DropLate:
		c.clients.Forget(cached)
		return nil, ctrl.Result{RequeueAfter: dropLateRequeue}, nil
	case pending != nil:
		logr.FromContextOrDiscard(ctx).V(4).Info("waiting for the cache", "awaited", pending.Awaited)
		return nil, ctrl.Result{RequeueAfter: pending.RequeueAfter}, nil
	}
	// The cache is sure to hold the last written status only after the check above.
	if cached, ok = c.Owners.Get(req.Namespace, req.Name); !ok {
		return nil, ctrl.Result{}, nil
	}
	owner := cached.DeepCopyObject().(O) //nolint:forcetypeassert // DeepCopyObject returns an object of the same type
	namespace, uid := owner.GetNamespace(), owner.GetUID()
	v := &View[O]{Owner: owner, seen: cached, Client: c.clients.For(uid), Now: c.options.Clock.Now(), cache: c}
	if c.Pods != nil {
		v.Pods, v.Revisions = c.podsOf(owner), c.RevisionsOf(owner)
	}
	if c.Claims != nil {
		v.Claims = c.Claims.Of(namespace, uid)
	}
	c.paces.begin(uid, len(v.Pods), v.Now)
	return v, ctrl.Result{}, nil
}

// dropLateRequeue is the time until the next reconcile of an owner whose reconcile no longer waits for its writes
// (DropLate).
const dropLateRequeue = 10 * time.Second

// PodView is a Pod and its owner; do not modify objects of the cache.
type PodView[O client.Object] struct {
	Owner O
	Pod   *corev1.Pod
	// Client is for writes about this Pod alone: the next ObservePod waits until the cache shows these writes. Observe of
	// the owner does not wait for these writes.
	Client client.Client
	Now    time.Time
}

// podRetry is the time until the next reconcile of a Pod if the cache is stale. Usually an event of the Pod comes
// earlier.
const podRetry = 2 * time.Second

// ObservePod begins a reconcile of a Pod, and returns the Pod's view. If the view is nil, return the result and the
// error from the reconciler: the Pod or its owner was deleted, the Pod has another controller, or the cache does not
// show the last writes to the Pod.
func (c *Cache[O]) ObservePod(ctx context.Context, req ctrl.Request) (*PodView[O], ctrl.Result, error) {
	pod, ok := c.Pods.Get(req.Namespace, req.Name)
	if !ok || !c.isOwned(pod) {
		return nil, ctrl.Result{}, nil
	}
	// An event may arrive before the cache shows the last writes. A decision on the old state would only lead to a
	// conflict.
	if pending, err := c.clients.Check(ctx, pod); pending != nil || err != nil {
		return nil, ctrl.Result{RequeueAfter: podRetry}, err
	}
	if pod, ok = c.Pods.Get(req.Namespace, req.Name); !ok || !c.isOwned(pod) {
		return nil, ctrl.Result{}, nil
	}
	owner, ok := c.cachedOwnerOf(pod)
	if !ok {
		return nil, ctrl.Result{}, nil
	}
	return &PodView[O]{Owner: owner, Pod: pod, Client: c.clients.For(pod.UID), Now: c.options.Clock.Now()}, ctrl.Result{}, nil
}

// OwnerOf returns the owner that controls a Pod, for callers that must not miss an owner, such as webhooks. If the
// cache does not have the owner, OwnerOf asks the API server: the cache may not be synced yet, or may not show a new
// owner yet. ok is false if the Pod has no owner of the kind. If err is not nil, nobody knows whether the Pod has
// such an owner.
func (c *Cache[O]) OwnerOf(ctx context.Context, pod *corev1.Pod) (owner O, ok bool, err error) {
	if owner, ok = c.cachedOwnerOf(pod); ok || !c.isOwned(pod) {
		return owner, ok, nil
	}
	ref := controllerOf(pod)
	owner = newOwner[O]()
	switch err := c.apiReader.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: ref.Name}, owner); {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return *new(O), false, nil
	case err != nil:
		return *new(O), false, fmt.Errorf("reading %s %s/%s, the owner of Pod %s: %w", c.kind.Kind, pod.Namespace, ref.Name, pod.Name, err)
	case owner.GetUID() != ref.UID:
		return *new(O), false, nil
	}
	return owner, true, nil
}

// cachedOwnerOf returns the owner that controls a Pod, according to the cache.
func (c *Cache[O]) cachedOwnerOf(pod *corev1.Pod) (owner O, ok bool) {
	if !c.isOwned(pod) {
		return owner, false
	}
	ref := controllerOf(pod)
	owner, ok = c.Owners.Get(pod.Namespace, ref.Name)
	if !ok || owner.GetUID() != ref.UID {
		return *new(O), false
	}
	return owner, true
}

// RevisionsOf returns the revisions of an owner, all in a single namespace.
func (c *Cache[O]) RevisionsOf(owner O) []*appsv1.ControllerRevision {
	namespace := cmp.Or(owner.GetNamespace(), c.options.RevisionNamespace)
	if namespace == "" {
		return nil
	}
	return c.Revisions.Of(namespace, owner.GetUID())
}

// IsNewest reports whether a Pod of a view is still the cache's newest version of the Pod, and the cache shows all
// writes to the Pod. Call IsNewest before changing fields that the controller of single Pods also changes: a decision
// on an older version would undo the change.
func (c *Cache[O]) IsNewest(ctx context.Context, pod *corev1.Pod) bool {
	pending, err := c.clients.Check(ctx, pod)
	newest, _ := c.Pods.Get(pod.Namespace, pod.Name)
	return pending == nil && err == nil && newest == pod
}

// exists reports whether an owner or a Pod has the UID.
func (c *Cache[O]) exists(uid types.UID) bool {
	if _, ok := c.Owners.ByUID(uid); ok || c.Pods == nil {
		return ok
	}
	_, ok := c.Pods.ByUID(uid)
	return ok
}

// newOwner returns an empty object of the owners' type.
func newOwner[O client.Object]() O {
	return reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O) //nolint:forcetypeassert // O is a pointer to a struct.
}
