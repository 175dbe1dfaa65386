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

// Manager is the part of a controller-runtime manager needed by a Cache.
type Manager interface {
	GetCache() cache.Cache
	GetClient() client.Client
	GetAPIReader() client.Reader
	GetScheme() *runtime.Scheme
	Add(manager.Runnable) error
}

// Options of a Cache. The zero value is usable.
type Options struct {
	// Client is the client for writes. Nil stands for the manager's client.
	Client client.Client
	// Claims says that owners, or their Pods with ordinals, have PersistentVolumeClaims: Cache.Claims has all of them.
	Claims bool
	// Nodes says that Pods are made for Nodes: an owner waits until the cache of Nodes is known to be new enough. A cache
	// restricted to a namespace must not restrict Nodes, which have no namespace. Give ControllerOptions.Watch a source
	// that wakes owners for a Node, such as WatchNodes.
	Nodes bool
	// Owned are the caches of objects that owners write and decide on instead of Pods and revisions, such as ConfigMaps.
	// With Owned, Cache.Pods and Cache.Revisions are nil, a View has neither, and only its own changes wake an owner: give
	// ControllerOptions.Watch. Everything about Pods is then forbidden: Claims, Nodes, Members, ObservePod, OwnerOf,
	// IsNewest, AddPodController.
	Owned []trackedclient.Source
	// Beside are the caches of objects that owners write and decide on beside Pods and revisions, such as requests to a
	// node agent. Only the owners' own changes and their Pods wake an owner: give ControllerOptions.Watch a source for
	// such objects.
	Beside []trackedclient.Source
	// Members returns the names of the owners to which a Pod belongs. Members is for owners that look after Pods
	// controlled by somebody else, for example because the owner has put something into the Pod. The result must depend on
	// nothing but the Pod. With Members, a View has the member Pods, whoever controls them, and the Pods wake the owner.
	// If owners have a namespace, a View has only Pods of the owner's namespace. Nil stands for the Pod's controller.
	Members func(*corev1.Pod) []string
	// RevisionNamespace is the namespace for revisions of owners without a namespace. Objects of other namespaces with an
	// owner reference to such an owner do not count: everybody with write access to a namespace can write owner references
	// there. Without RevisionNamespace, owners without a namespace have no revisions.
	RevisionNamespace string
	// Namespace is the namespace to which the manager's cache is restricted, empty for all.
	Namespace string
	// Alarm is how long own writes may be missing from the cache before the Observer is told; 0 means a minute.
	Alarm time.Duration
	// DropLate lets an owner go on after Alarm although its writes are not visible. DropLate is not safe: the owner may
	// create Pods twice. If false, an owner waits, and a live read per Alarm finds out whether the cache holds everything
	// after all.
	DropLate bool
	// NoBarrier lets owners decide before the cache is known to show an earlier leader's writes. NoBarrier is for tests
	// that never start the manager.
	NoBarrier bool
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Observer of the waits for own writes; nil for none.
	Observer expectations.Observer
}

// complete fills in the defaults, and refuses contradictory options.
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

// Cache knows the owners of a kind and their controlled objects. A Cache is safe for concurrent use. Make a Cache with
// New.
type Cache[O client.Object] struct {
	// Owners, Pods and Revisions look single objects up. Claims and Nodes are nil without their options, Pods and
	// Revisions with Options.Owned.
	Owners    *Index[O]
	Pods      *Index[*corev1.Pod]
	Revisions *Index[*appsv1.ControllerRevision]
	Claims    *Index[*corev1.PersistentVolumeClaim]
	Nodes     *Index[*corev1.Node]

	kind      schema.GroupVersionKind
	clients   *trackedclient.Clients
	apiReader client.Reader
	options   Options
	queue     atomic.Pointer[queue] // of the owners' controller
	paces     paces

	mu       sync.RWMutex
	gone     []func(types.UID)
	replaced []func(owner types.UID, pod *corev1.Pod)
}

// claimIndex is the name of the index of Pods by their claims.
const claimIndex = "workloadkit/claim"

// New returns a cache for the kind of owner, which the manager's scheme must know. New adds a runnable to the manager
// that holds all owners back until the cache is known to be new enough. Call New before the manager starts. The error
// comes from NewIndex, or from the scheme.
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

// index makes the indexes and the sources for the comparison with writes.
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

// claimsUsedBy returns a key for each claim named by a Pod, regardless of the Pod's owner.
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

// Kind returns the owners' kind, in the version of the scheme's answer.
func (c *Cache[O]) Kind() schema.GroupVersionKind { return c.kind }

// Clients returns the maker of the views' clients, for writes outside of views, and for a look at awaited writes.
func (c *Cache[O]) Clients() *trackedclient.Clients { return c.clients }

// APIReader returns a reader that does not read from a cache.
func (c *Cache[O]) APIReader() client.Reader { return c.apiReader }

// View is an owner and its controlled objects in the cache. Pods, revisions and claims are in no particular order. The
// slices are the caller's, the objects are the cache's: read only. The claims of pvc.Numbered have no controller:
// Cache.Claims finds them.
type View[O client.Object] struct {
	// Owner is a copy.
	Owner     O
	Pods      []*corev1.Pod
	Revisions []*appsv1.ControllerRevision
	Claims    []*corev1.PersistentVolumeClaim
	// Client writes for the owner: the next Observe waits until the cache shows the writes.
	Client client.Client
	// Now is when the view was taken.
	Now time.Time

	cache *Cache[O]
	seen  O // the cache's own object

	// sent is the last status that the view has written, and version the owner's version thereafter; empty for none.
	sent    []byte
	version string
}

// Object returns the owner, for packages that are not specific to a kind.
func (v *View[O]) Object() client.Object { return v.Owner }

// Time returns Now.
func (v *View[O]) Time() time.Time { return v.Now }

// InDoubt reports whether a write of the pass got no answer. The effect of the write is unknown before the next
// Observe, so go on with other objects, but begin no next phase.
func (v *View[O]) InDoubt() bool { return v.cache.clients.InDoubt(v.Owner) }

// For returns a client for writes to a Pod of the owner for which the Pod's own loop must also wait. See ObservePod.
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

// WakeAfter has the owner reconciled once more after a while.
func (v *View[O]) WakeAfter(d time.Duration) {
	if q := v.cache.queue.Load(); q != nil {
		(*q).AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(v.Owner)}, d)
	}
}

// Observe begins a reconcile of an owner. If the view is nil, return the result and the error: the owner is gone, or
// the cache does not show all writes for the owner. Observe also returns an owner with a deletionTimestamp. The error
// is the error of a read after an unanswered write.
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
	// Only now does the cache hold the last written status.
	if cached, ok = c.Owners.Get(req.Namespace, req.Name); !ok {
		return nil, ctrl.Result{}, nil
	}
	owner := cached.DeepCopyObject().(O) //nolint:forcetypeassert // DeepCopyObject returns the same type.
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

// dropLateRequeue is the time until an owner goes on after its writes were dropped.
const dropLateRequeue = 10 * time.Second

// PodView is a Pod and its owner in the cache: read only.
type PodView[O client.Object] struct {
	Owner O
	Pod   *corev1.Pod
	// Client writes for the Pod alone: the Pod's own loop waits until the cache shows the writes. The owner does not wait
	// for them.
	Client client.Client
	Now    time.Time
}

// podRetry is the time until another look at a Pod with a late cache. The Pod's own events come sooner.
const podRetry = 2 * time.Second

// ObservePod begins a reconcile of a Pod. If the view is nil, return the result and the error: the Pod or its owner is
// gone, the Pod has another controller, or the cache does not show the last writes to the Pod.
func (c *Cache[O]) ObservePod(ctx context.Context, req ctrl.Request) (*PodView[O], ctrl.Result, error) {
	pod, ok := c.Pods.Get(req.Namespace, req.Name)
	if !ok || !c.isOwned(pod) {
		return nil, ctrl.Result{}, nil
	}
	// A notification may come before the cache shows the last writes. A decision on the old state would only earn a
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

// OwnerOf returns the owner that controls a Pod, for answers that must not miss an owner, such as a webhook's. If the
// cache lacks the owner, OwnerOf asks the API server: a cache is empty until filled, and shows a new owner late. ok is
// false without an owner of the kind. Beside an error nothing is known.
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

// IsNewest reports whether a Pod of a view still is the cache's object, and the cache shows all writes to the Pod. Ask
// before a change of fields that the Pod's own loop changes too: a decision on an older Pod would undo the loop's
// change.
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
