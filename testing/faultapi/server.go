package faultapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// firstVersion is the first resourceVersion. The version is just below 100, so that a schedule finds controllers that
// compare versions as strings, for which "100" is less than "99".
const firstVersion = 90

// uidFormat is the form of UIDs.
const uidFormat = "uid-%06d"

// Server is the simulated API server. A Server is safe for concurrent use. Make a Server with New.
type Server struct {
	scheme *runtime.Scheme
	now    func() time.Time

	mu      sync.Mutex
	version int64
	uids    int64
	// effectless counts updates and patches that changed nothing.
	effectless int
	kinds      map[schema.GroupKind]*kind
	order      []*kind

	nodes *Nodes
}

// kind is a resource with its objects and the log of all events.
type kind struct {
	strategy

	like       client.Object // an object of the stored type
	gvk        schema.GroupVersionKind
	resource   schema.GroupResource
	namespaced bool
	objects    map[types.NamespacedName]client.Object
	log        []Event
}

// Event is a change of an object. The event of a deletion contains the object's last state with the version of the
// deletion. The object belongs to the server, so do not modify it.
type Event struct {
	Type    watch.EventType
	Object  client.Object
	Version int64
}

// New returns a server for Pods, ControllerRevisions, PersistentVolumeClaims and the kinds of the given objects. The
// server has the rules for Nodes, Secrets, StorageClasses, Namespaces, webhook configurations and
// CustomResourceDefinitions. All other kinds are custom resources with a status subresource and, unless ClusterWide
// says otherwise, with a namespace. The scheme must know the types of all kinds. now is the server's clock.
func New(scheme *runtime.Scheme, now func() time.Time, kinds ...client.Object) (*Server, error) {
	s := &Server{scheme: scheme, now: now, version: firstVersion, kinds: map[schema.GroupKind]*kind{}}
	pods, err := newPodStrategy()
	if err != nil {
		return nil, err
	}
	revisions, err := newRevisionStrategy()
	if err != nil {
		return nil, err
	}
	claims, err := newClaimStrategy()
	if err != nil {
		return nil, err
	}
	if err := s.add(&corev1.Pod{}, pods); err != nil {
		return nil, err
	}
	if err := s.add(&appsv1.ControllerRevision{}, revisions); err != nil {
		return nil, err
	}
	if err := s.add(&corev1.PersistentVolumeClaim{}, claims); err != nil {
		return nil, err
	}
	for _, obj := range kinds {
		wide, isWide := obj.(clusterWide)
		if isWide {
			obj = wide.Object
		}
		how, err := strategyOf(obj)
		if err != nil {
			return nil, err
		}
		if err := s.add(obj, how); err != nil {
			return nil, err
		}
		if k, err := s.kindOf(obj); err == nil && isWide {
			k.namespaced = false
		}
	}
	return s, nil
}

// clusterWide marks an object of a kind without namespaces.
type clusterWide struct{ client.Object }

// ClusterWide tells New to serve a custom resource without namespaces.
func ClusterWide(obj client.Object) client.Object { return clusterWide{obj} }

func (s *Server) add(obj client.Object, how strategy) error {
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", obj, err)
	}
	k := &kind{
		strategy: how, like: obj, gvk: gvk, objects: map[types.NamespacedName]client.Object{}, namespaced: !isClusterWide(gvk.GroupKind()),
		resource: schema.GroupResource{Group: gvk.Group, Resource: plural(strings.ToLower(gvk.Kind))},
	}
	s.kinds[gvk.GroupKind()] = k
	s.order = append(s.order, k)
	return nil
}

// kindOf finds the resource of an object, of a list, or of the kind in PartialObjectMetadata.
func (s *Server) kindOf(obj runtime.Object) (*kind, error) {
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		return nil, fmt.Errorf("kind of %T: %w", obj, err)
	}
	gk := schema.GroupKind{Group: gvk.Group, Kind: strings.TrimSuffix(gvk.Kind, "List")}
	if k := s.kinds[gk]; k != nil {
		return k, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, "")
}

// Version returns the resourceVersion of the newest change.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Events returns the events of obj's kind, oldest first. The slice belongs to the server, so do not modify it.
func (s *Server) Events(obj client.Object) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.kindOf(obj)
	if err != nil {
		return nil
	}
	return slices.Clip(k.log)
}

// All returns the stored objects of a type, sorted by name. The objects belong to the server, so do not modify them.
func All[T client.Object](s *Server) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.order {
		var out []T
		for _, obj := range k.objects {
			typed, ok := obj.(T)
			if !ok {
				break
			}
			out = append(out, typed)
		}
		if len(out) > 0 {
			slices.SortFunc(out, func(a, b T) int { return strings.Compare(sortKey(a), sortKey(b)) })
			return out
		}
	}

	return nil
}

// sortKey is the key in client-go's stores: the name alone for an object without a namespace.
func sortKey(obj client.Object) string { return storeKey(client.ObjectKeyFromObject(obj)) }

func storeKey(key client.ObjectKey) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// Stored returns the stored object with like's kind and the given key, or nil. The object belongs to the server, so
// do not modify it.
func (s *Server) Stored(like client.Object, key client.ObjectKey) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.kindOf(like)
	if err != nil {
		return nil
	}
	return k.objects[key]
}

// Target returns the stored object that a call is about, or nil. The object belongs to the server, so do not modify
// it.
func (s *Server) Target(call Call) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.served(call.Resource); k != nil {
		return k.objects[client.ObjectKey{Namespace: call.Namespace, Name: call.Name}]
	}
	return nil
}

// Newest returns the last changed object of a resource, or nil. The object belongs to the server, so do not modify it.
func (s *Server) Newest(resource schema.GroupResource) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.served(resource); k != nil && len(k.log) > 0 {
		return k.log[len(k.log)-1].Object
	}
	return nil
}

// Effectless returns the number of updates and patches so far that were accepted and changed nothing.
func (s *Server) Effectless() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effectless
}

func (s *Server) served(resource schema.GroupResource) *kind {
	for _, k := range s.order {
		if k.resource == resource {
			return k
		}
	}
	return nil
}

func (s *Server) stamp() string {
	s.version++
	return strconv.FormatInt(s.version, 10)
}

// time returns the server's time in whole seconds, as in objects.
func (s *Server) time() metav1.Time { return metav1.NewTime(s.now().Truncate(time.Second)) }

// store stores obj with a new resourceVersion. The caller must not modify obj afterwards.
func (s *Server) store(k *kind, t watch.EventType, obj client.Object) {
	obj.SetResourceVersion(s.stamp())
	k.log = append(k.log, Event{Type: t, Object: obj, Version: s.version})
	key := client.ObjectKeyFromObject(obj)
	if t == watch.Deleted {
		delete(k.objects, key)
		return
	}
	k.objects[key] = obj
}

func clone(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

func (s *Server) get(k *kind, key types.NamespacedName) (client.Object, error) {
	if obj := k.objects[key]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(k.resource, key.Name)
}

// list returns the matching objects by name.
func (s *Server) list(k *kind, matches func(client.Object) bool) []client.Object {
	var out []client.Object
	for _, obj := range k.objects {
		if matches(obj) {
			out = append(out, obj)
		}
	}
	slices.SortFunc(out, func(a, b client.Object) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return out
}

// create stores a new object. The caller must not use obj afterwards.
func (s *Server) create(k *kind, obj client.Object) (client.Object, error) {
	if obj.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(obj.GetGenerateName() + strconv.FormatInt(s.version, 36))
	}
	s.uids++
	obj.SetUID(types.UID(fmt.Sprintf(uidFormat, s.uids)))
	obj.SetCreationTimestamp(s.time())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetGeneration(0)
	obj.SetManagedFields(nil)
	k.prepareCreate(obj)
	errs := validation.ValidateObjectMetaAccessor(obj, k.namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if errs = append(errs, k.validateCreate(obj)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.gvk.GroupKind(), obj.GetName(), errs)
	}
	if k.objects[client.ObjectKeyFromObject(obj)] != nil {
		return nil, apierrors.NewAlreadyExists(k.resource, obj.GetName())
	}
	s.store(k, watch.Added, obj)
	return obj, nil
}

// update replaces an object by the result of calling change. If nothing changes, the resourceVersion stays the same.
func (s *Server) update(
	k *kind, key types.NamespacedName, sub string, change func(current client.Object) (client.Object, error),
) (client.Object, error) {
	obj, old, err := s.updated(k, key, sub, change)
	if err == nil && obj == old {
		s.effectless++
	}
	if err != nil || obj == old {
		return obj, err
	}
	if endsNow(obj, old) {
		// The updated object is never stored: watches show the object before the update, and the response has the old
		// resourceVersion.
		s.store(k, watch.Deleted, clone(old))
		return obj, nil
	}
	s.store(k, watch.Modified, obj)
	return obj, nil
}

// updated applies a change, and returns the new object and the old object. If nothing changes, both are the same
// object.
func (s *Server) updated(
	k *kind, key types.NamespacedName, sub string, change func(current client.Object) (client.Object, error),
) (obj, old client.Object, err error) {
	if old, err = s.get(k, key); err != nil {
		return nil, nil, err
	}
	if obj, err = change(old); err != nil {
		return nil, nil, err
	}
	if err := checkVersion(k, obj, old); err != nil {
		return nil, nil, err
	}
	obj.SetGeneration(old.GetGeneration())
	if err := k.prepareUpdate(sub, obj, old); err != nil {
		return nil, nil, err
	}
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	obj.SetResourceVersion(old.GetResourceVersion())
	if equality.Semantic.DeepEqual(obj, old) && !endsNow(obj, old) {
		return old, old, nil
	}
	if errs := k.validate(sub, obj, old); len(errs) > 0 {
		return nil, nil, apierrors.NewInvalid(k.gvk.GroupKind(), obj.GetName(), errs)
	}
	return obj, old, nil
}

// validate checks an object, except metadata that has not changed.
func (k *kind) validate(sub string, obj, old client.Object) field.ErrorList {
	var errs field.ErrorList
	now, before := *metadataOf(obj), *metadataOf(old)
	now.Generation = before.Generation
	if !equality.Semantic.DeepEqual(now, before) {
		path := field.NewPath("metadata")
		errs = validation.ValidateObjectMetaAccessor(obj, k.namespaced, validation.NameIsDNSSubdomain, path)
		errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(obj, old, path)...)
	}
	return append(errs, k.validateUpdate(sub, obj, old)...)
}

func checkVersion(k *kind, obj, old client.Object) error {
	version := obj.GetResourceVersion()
	switch {
	case version == "" && !k.unconditional():
		return apierrors.NewInvalid(k.gvk.GroupKind(), obj.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case version != "" && version != old.GetResourceVersion():
		return apierrors.NewConflict(k.resource, obj.GetName(),
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// endsNow reports whether an update removes the object: the object is being deleted, the update has removed its last
// finalizer, and no grace period remains.
func endsNow(obj, old client.Object) bool {
	grace := old.GetDeletionGracePeriodSeconds()
	return len(obj.GetFinalizers()) == 0 && old.GetDeletionTimestamp() != nil && (grace == nil || *grace == 0)
}

// delete removes an object, or marks the object as terminating if a finalizer or a grace period delays its removal.
func (s *Server) delete(k *kind, key types.NamespacedName, options *metav1.DeleteOptions) error {
	old, err := s.get(k, key)
	if err != nil {
		return err
	}
	if err := checkPreconditions(k, old, options.Preconditions); err != nil {
		return err
	}
	obj := clone(old)
	grace, graceful := k.grace(obj, options)
	switch {
	case graceful && old.GetDeletionTimestamp() != nil:
		s.shorten(k, obj, options)
		return nil
	case graceful:
		obj.SetDeletionTimestamp(&metav1.Time{Time: s.time().Add(time.Duration(grace) * time.Second)})
		obj.SetDeletionGracePeriodSeconds(&grace)
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
	case len(obj.GetFinalizers()) > 0:
		if obj.GetDeletionTimestamp() == nil {
			now := s.time()
			obj.SetDeletionTimestamp(&now)
			if obj.GetGeneration() > 0 {
				obj.SetGeneration(obj.GetGeneration() + 1)
			}
		}
		obj.SetDeletionGracePeriodSeconds(new(int64))
	}
	s.finishDelete(k, obj, old, grace)
	return nil
}

// shorten handles a second deletion of an object during its grace period. The grace period counts from the first
// deletion.
func (s *Server) shorten(k *kind, obj client.Object, options *metav1.DeleteOptions) {
	old := k.objects[client.ObjectKeyFromObject(obj)]
	given := old.GetDeletionGracePeriodSeconds()
	if given == nil || *given == 0 {
		s.finishDelete(k, obj, old, 0)
		return
	}
	if options.GracePeriodSeconds == nil {
		return
	}
	grace := *options.GracePeriodSeconds
	if grace < 0 {
		grace = 1
	}
	if grace >= *given {
		return
	}
	ends, now := old.GetDeletionTimestamp().Add(time.Duration(grace-*given)*time.Second), s.time()
	if ends.Before(now.Time) {
		ends, grace = now.Time, min(grace, 1)
	}
	obj.SetDeletionTimestamp(&metav1.Time{Time: ends})
	obj.SetDeletionGracePeriodSeconds(&grace)
	s.finishDelete(k, obj, old, grace)
}

// finishDelete stores the deletionTimestamp, and removes the object unless the removal must wait for a kubelet or a
// finalizer.
func (s *Server) finishDelete(k *kind, obj, old client.Object, grace int64) {
	if !equality.Semantic.DeepEqual(obj, old) {
		s.store(k, watch.Modified, obj)
		obj = clone(obj)
	}
	if len(obj.GetFinalizers()) == 0 && grace <= 0 {
		s.store(k, watch.Deleted, obj)
	}
}

func checkPreconditions(k *kind, obj client.Object, want *metav1.Preconditions) error {
	if want == nil {
		return nil
	}
	if want.UID != nil && *want.UID != obj.GetUID() {
		return apierrors.NewConflict(k.resource, obj.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *want.UID, obj.GetUID()))
	}
	if want.ResourceVersion != nil && *want.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(k.resource, obj.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s)", *want.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// isClusterWide reports whether objects of a kind are in no namespace.
func isClusterWide(gk schema.GroupKind) bool {
	return gk.Group == "admissionregistration.k8s.io" || gk.Group == "apiextensions.k8s.io" || gk.Group == "storage.k8s.io" ||
		gk == schema.GroupKind{Kind: "Node"} || gk == schema.GroupKind{Kind: "Namespace"}
}

func plural(kind string) string {
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}
