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

// Manager is what a Cache needs of a controller-runtime manager.
type Manager interface {
	GetCache() cache.Cache
	GetClient() client.Client
	GetAPIReader() client.Reader
	GetScheme() *runtime.Scheme
	Add(manager.Runnable) error
}

// Options of a Cache. The zero value is usable.
type Options struct {
	// Client is what is written with; nil stands for the manager's.
	Client client.Client
	// Claims says that owners have PersistentVolumeClaims.
	Claims bool
	// Nodes says that Pods are made for Nodes: owners are not decided on before the cache of Nodes is known to be new enough. A cache that
	// is restricted to a namespace must not be so for Nodes, which are in none. Give ControllerOptions.Watch what wakes owners for a Node, as
	// WatchNodes does.
	Nodes bool
	// Owned are the caches of what owners write and decide on instead of Pods and revisions, such as ConfigMaps. With it, Cache.Pods and
	// Cache.Revisions are nil, a View has none of both, and nothing wakes an owner but its own changes: give ControllerOptions.Watch. What
	// knows Pods must not be used then: the options above and below that are about them, ObservePod, OwnerOf, IsNewest, AddPodController.
	Owned []trackedclient.Source
	// Members returns the names of the owners that a Pod belongs to, for owners that look after Pods which others control: those that have
	// put something into them. It must depend on the Pod alone. With it, the Pods of a View are those, whoever controls them, and they wake
	// the owner; where owners have a namespace, Pods of that one alone. Nil stands for the Pod's controller.
	Members func(*corev1.Pod) []string
	// RevisionNamespace is where the revisions of owners are that have no namespace. Objects of other namespaces that claim to be such an owner's
	// are not: whoever may write there can write owner references. Without it, owners without a namespace have no revisions.
	RevisionNamespace string
	// Namespace that the manager's cache is restricted to; empty for all.
	Namespace string
	// Alarm is how long own writes may be missing from the cache before the Observer is told; 0 means a minute.
	Alarm time.Duration
	// DropLate has an owner go on after Alarm although its writes are not visible. That is not safe: it may create Pods twice.
	// Without it an owner waits, and one live read each Alarm finds out whether the cache holds everything after all.
	DropLate bool
	// NoBarrier lets owners be decided on before the cache is known to show what an earlier leader has written. It is for tests
	// that never start the manager.
	NoBarrier bool
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Observer of the waits for own writes; nil for none.
	Observer expectations.Observer
}

// complete fills in the defaults, and refuses what contradicts itself.
func (o Options) complete(mgr Manager, kind string) (Options, error) {
	if len(o.Owned) > 0 && (o.Claims || o.Nodes || o.Members != nil) {
		return o, fmt.Errorf("ownercache: Options.Owned of %s is for owners without Pods; Claims, Nodes and Members are about Pods", kind)
	}
	if o.Client == nil {
		o.Client = mgr.GetClient()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

// Cache knows the owners of one kind and what they control. It is safe for concurrent use. Make it with New.
type Cache[O client.Object] struct {
	// Owners, Pods and Revisions look single objects up. Claims and Nodes are nil without their options, Pods and Revisions with Options.Owned.
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

// claimIndex is the name of the index of Pods by the claims that they use.
const claimIndex = "workloadkit/claim"

// New returns a cache for the kind of owner, which the manager's scheme must know, and adds to the manager what holds all owners
// back until the cache is known to be new enough. Call it before the manager starts. The error is one of NewIndex, or of the
// scheme.
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

// index makes the indexes, and the sources that writes are compared with.
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

// claimsUsedBy returns a key for each claim that a Pod names, whoever owns the Pod.
func claimsUsedBy(pod *corev1.Pod) (keys []string) {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			keys = append(keys, pod.Namespace+"/"+source.ClaimName)
		}
	}
	return keys
}

// UsersOf returns the Pods that use a claim, whoever owns them. It panics without the option Claims.
func (c *Cache[O]) UsersOf(claim *corev1.PersistentVolumeClaim) []*corev1.Pod {
	return c.Pods.By(claimIndex, claim.Namespace+"/"+claim.Name)
}

// Kind returns the owners' kind, in the version that the scheme was asked about.
func (c *Cache[O]) Kind() schema.GroupVersionKind { return c.kind }

// Clients returns what makes the clients of the views, for what is written in other ways, and to see what is awaited.
func (c *Cache[O]) Clients() *trackedclient.Clients { return c.clients }

// APIReader returns a reader that does not read from a cache.
func (c *Cache[O]) APIReader() client.Reader { return c.apiReader }

// View is one owner and what it controls, as the cache shows it. Pods, revisions and claims are in no particular order; the
// slices are the caller's, the objects are the cache's: read only.
type View[O client.Object] struct {
	// Owner is a copy.
	Owner     O
	Pods      []*corev1.Pod
	Revisions []*appsv1.ControllerRevision
	Claims    []*corev1.PersistentVolumeClaim
	// Client writes for the owner: nothing is decided for it again before the cache shows the writes.
	Client client.Client
	// Now is when the view was taken.
	Now time.Time

	cache *Cache[O]
	seen  O // the cache's own object
}

// Object returns the owner, as packages know it that are not about one kind.
func (v *View[O]) Object() client.Object { return v.Owner }

// Time returns Now.
func (v *View[O]) Time() time.Time { return v.Now }

// InDoubt reports whether a write of this pass was not answered. What it has done is not known before the next Observe, so go on
// with other objects, but begin no next phase.
func (v *View[O]) InDoubt() bool { return v.cache.clients.InDoubt(v.Owner) }

// For returns a client for writes to a Pod of the owner that the Pod's own loop has to see as well. See ObservePod.
func (v *View[O]) For(pod *corev1.Pod) client.Client {
	return v.cache.clients.For(v.Owner.GetUID(), pod.UID)
}

// Gone reports whether a Pod is no longer in the cache. It is false for objects of other kinds.
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

// Observe begins a reconcile of an owner. Where the view is nil, return the other two: the owner is gone, or the cache does not
// show all that was written for it. An owner with a deletionTimestamp is returned like any other. The error is that of a read
// of something whose write was not answered.
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
	// Only now does the cache hold the status that was written last.
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

// dropLateRequeue is when an owner goes on whose writes are not awaited any longer.
const dropLateRequeue = 10 * time.Second

// PodView is one Pod and its owner, as the cache shows them: read only.
type PodView[O client.Object] struct {
	Owner O
	Pod   *corev1.Pod
	// Client writes for the Pod alone: its own loop does not look at it again before the cache shows the writes. The owner does not
	// wait for them.
	Client client.Client
	Now    time.Time
}

// podRetry is when to look again at a Pod that the cache is behind with. Its own events come sooner.
const podRetry = 2 * time.Second

// ObservePod begins a reconcile of a Pod. Where the view is nil, return the other two: the Pod or its owner is gone, it is
// controlled by something else, or the cache does not show what was last written to it.
func (c *Cache[O]) ObservePod(ctx context.Context, req ctrl.Request) (*PodView[O], ctrl.Result, error) {
	pod, ok := c.Pods.Get(req.Namespace, req.Name)
	if !ok || !c.isOwned(pod) {
		return nil, ctrl.Result{}, nil
	}
	// A notification may come before the cache shows what was written last; deciding on that would only earn a conflict.
	if pending, err := c.clients.Check(ctx, pod); pending != nil || err != nil {
		return nil, ctrl.Result{RequeueAfter: podRetry}, err
	}
	if pod, ok = c.Pods.Get(req.Namespace, req.Name); !ok || !c.isOwned(pod) {
		return nil, ctrl.Result{}, nil
	}
	owner, ok := c.OwnerOf(pod)
	if !ok {
		return nil, ctrl.Result{}, nil
	}
	return &PodView[O]{Owner: owner, Pod: pod, Client: c.clients.For(pod.UID), Now: c.options.Clock.Now()}, ctrl.Result{}, nil
}

// OwnerOf returns the owner that controls a Pod, as the cache has it.
func (c *Cache[O]) OwnerOf(pod *corev1.Pod) (owner O, ok bool) {
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

// RevisionsOf returns the revisions of an owner, of one namespace alone.
func (c *Cache[O]) RevisionsOf(owner O) []*appsv1.ControllerRevision {
	namespace := cmp.Or(owner.GetNamespace(), c.options.RevisionNamespace)
	if namespace == "" {
		return nil
	}
	return c.Revisions.Of(namespace, owner.GetUID())
}

// IsNewest reports whether a Pod of a view still is what the cache has, and the cache shows all that was written to it. Ask before
// changing what the Pod's own loop changes too: a decision on an older Pod would undo what that has done.
func (c *Cache[O]) IsNewest(ctx context.Context, pod *corev1.Pod) bool {
	pending, err := c.clients.Check(ctx, pod)
	newest, _ := c.Pods.Get(pod.Namespace, pod.Name)
	return pending == nil && err == nil && newest == pod
}

// exists reports whether an owner or one of the Pods has the UID.
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
