package podwebhook

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Sets compiles the objects of a kind in a cache into sidecar sets. Use Sets.For as Injection.Sets. Sets is safe for
// concurrent use. Make Sets with NewSets.
type Sets[O client.Object] struct {
	// indexes are the indexes by the owners' namespace. For cluster-scoped owners the namespace is empty.
	indexes    sync.Map // maps a namespace to its *sidecarcontrol.Index
	compile    func(O) (*sidecarcontrol.Set, error)
	log        logr.Logger
	owners     cache.Informer
	namespaces client.Reader
	live       client.Reader
	synced     []func() bool
}

// Manager is the part of a controller-runtime manager that Sets needs.
type Manager interface {
	GetCache() cache.Cache
	GetAPIReader() client.Reader
	GetLogger() logr.Logger
}

// NewSets returns Sets for the kind of owner, and adds informers for the kind and for Namespaces to the manager's
// cache. compile returns the set defined by an object, or nil if there is none. A set must have its owner's name. If
// owners have a namespace, a set applies only to Pods of this namespace. If compile returns an error, the object's set
// is not injected, and the error is logged. compile is called when an object is created, when anything but its status
// changes, and on Update. compile must not modify the object. Call NewSets before the manager starts.
//
// RBAC: list and watch on the owner's kind, and get, list and watch on Namespaces.
func NewSets[O client.Object](ctx context.Context, mgr Manager, owner O, compile func(O) (*sidecarcontrol.Set, error)) (*Sets[O], error) {
	s := &Sets[O]{
		compile: compile, log: mgr.GetLogger(), namespaces: mgr.GetCache(), live: mgr.GetAPIReader(),
	}
	var err error
	if s.owners, err = mgr.GetCache().GetInformer(ctx, owner, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("podwebhook: informer for %T: %w", owner, err)
	}
	registration, err := s.owners.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		// The handlers are methods, because Go 1.26.8 mixes up function literals of generic functions.
		AddFunc: s.put, UpdateFunc: s.replace, DeleteFunc: s.drop,
	})
	if err != nil {
		return nil, fmt.Errorf("podwebhook: watching %T: %w", owner, err)
	}
	namespaces, err := mgr.GetCache().GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("podwebhook: informer for Namespaces: %w", err)
	}
	s.synced = []func() bool{registration.HasSynced, namespaces.HasSynced}
	return s, nil
}

// isOther reports whether anything outside an object's status has changed, by metadata.generation and the labels and
// annotations. Kinds without a generation, such as ConfigMaps, have no status, so every change counts.
func isOther(before, after any) bool {
	was, ok := before.(client.Object)
	is, alsoOK := after.(client.Object)
	return !ok || !alsoOK || is.GetGeneration() == 0 || was.GetUID() != is.GetUID() || was.GetGeneration() != is.GetGeneration() ||
		!maps.Equal(was.GetAnnotations(), is.GetAnnotations()) || !maps.Equal(was.GetLabels(), is.GetLabels())
}

func (s *Sets[O]) put(obj any) {
	owner, ok := obj.(O)
	if !ok {
		return
	}
	set, err := s.compile(owner)
	if err == nil && set != nil && set.Name() != owner.GetName() {
		err = fmt.Errorf("the set is called %s, and must be called as its owner", set.Name())
	}
	index := s.indexOf(owner.GetNamespace())
	switch {
	case err != nil:
		s.log.Info("sidecars are not injected, because their definition makes no sense", "namespace", owner.GetNamespace(), "name", owner.GetName(), "reason", err.Error())
		index.Delete(owner.GetName())
	case set == nil:
		index.Delete(owner.GetName())
	default:
		index.Put(set)
	}
}

func (s *Sets[O]) replace(before, after any) {
	if isOther(before, after) {
		s.put(after)
	}
}

func (s *Sets[O]) drop(obj any) {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	if object, ok := obj.(client.Object); ok {
		s.indexOf(object.GetNamespace()).Delete(object.GetName())
	}
}

// indexOf returns the index for a namespace.
func (s *Sets[O]) indexOf(namespace string) *sidecarcontrol.Index {
	found, ok := s.indexes.Load(namespace)
	if !ok {
		found, _ = s.indexes.LoadOrStore(namespace, sidecarcontrol.NewIndex())
	}
	return found.(*sidecarcontrol.Index)
}

// Update compiles an object again. Call Update after a change of other data that the function compile reads.
func (s *Sets[O]) Update(owner O) { s.put(owner) }

// Await adds a function that must return true before HasSynced does: after the start of the process, the creation of
// Pods waits for this function. Call Await before the manager starts.
func (s *Sets[O]) Await(synced func() bool) { s.synced = append(s.synced, synced) }

// patience is how long the creation of a Pod waits for the caches after the process has started. API servers wait ten
// seconds for a webhook by default.
const patience = 5 * time.Second

// HasSynced reports whether all sets have been compiled.
func (s *Sets[O]) HasSynced() bool {
	for _, synced := range s.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// For returns the sets that match a Pod; the Pod's namespace must be set. While the caches are not synced, For waits
// at most five seconds. If the caches are not synced then, the error asks the client to retry later. Any other error
// comes from reading the Pod's namespace object.
func (s *Sets[O]) For(ctx context.Context, pod *corev1.Pod) ([]*sidecarcontrol.Set, error) {
	if !s.HasSynced() {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return s.HasSynced(), nil })
		if err != nil {
			return nil, apierrors.NewServiceUnavailable("the sidecars for Pods are not known yet")
		}
	}
	var indexes []*sidecarcontrol.Index
	for _, of := range []string{"", pod.Namespace} {
		if found, ok := s.indexes.Load(of); ok && found.(*sidecarcontrol.Index).Len() > 0 {
			indexes = append(indexes, found.(*sidecarcontrol.Index))
		}
	}
	if len(indexes) == 0 {
		return nil, nil
	}
	namespace := &corev1.Namespace{}
	err := s.namespaces.Get(ctx, client.ObjectKey{Name: pod.Namespace}, namespace)
	if apierrors.IsNotFound(err) { // the namespace may be too new for the cache
		err = s.live.Get(ctx, client.ObjectKey{Name: pod.Namespace}, namespace)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading namespace %s: %w", pod.Namespace, err)
	}
	var matching []*sidecarcontrol.Set
	for _, index := range indexes {
		matching = append(matching, index.Match(pod, namespace.Labels)...)
	}
	return matching, nil
}
