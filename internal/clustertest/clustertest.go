// Package clustertest has an API server in memory and a cache, both controlled by the test. The package is for tests
// of packages that write to an API server and read from a cache.
//
// Nothing changes by itself: the cache is updated, and its event handlers are called, only in Deliver. resourceVersions
// grow across all objects, as on a real API server.
package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Request is a write request, such as "patch", and its subresource, such as "status".
type Request struct {
	Verb, Subresource string
	Object            client.Object
}

// String returns a short form of the request: "patch Pod/status web-0".
func (r Request) String() string {
	out := r.Verb + " " + kindOf(r.Object)
	if r.Subresource != "" {
		out += "/" + r.Subresource
	}
	return out + " " + r.Object.GetName()
}

// kindOf returns the kind of an object, also for objects that have only metadata.
func kindOf(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(object).Elem().Name()
}

// Cluster is the API server, the cache, and the methods of a manager that package ownercache needs. Client reads from
// and writes to the API server. Make a Cluster with New; only Client and APIReader are safe for concurrent use.
type Cluster struct {
	cache.Cache // nil: tests need only the methods below
	client.WithWatch

	// Answer, unless nil, is called before each write; if Answer returns an error, the write fails with this error.
	// Change modifies an object before the server stores the object, as a webhook does.
	Answer func(Request) error
	Change func(client.Object)

	mu        sync.Mutex
	requests  []string
	version   int
	informers map[reflect.Type]*informer
	Runnables []manager.Runnable
}

// New returns an empty cluster.
func New() *Cluster {
	c := &Cluster{version: 90, informers: map[reflect.Type]*informer{}}
	tracker := versions{clienttesting.NewObjectTracker(scheme.Scheme, serializer.NewCodecFactory(scheme.Scheme).UniversalDecoder()), c}
	c.WithWatch = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjectTracker(tracker).WithInterceptorFuncs(c.intercept()).Build()
	return c
}

// versions gives each stored object a new resourceVersion, and each new object a UID.
type versions struct {
	clienttesting.ObjectTracker

	cluster *Cluster
}

func (v versions) stamp(object metav1.Object) {
	v.cluster.mu.Lock()
	defer v.cluster.mu.Unlock()
	v.cluster.version++
	object.SetResourceVersion(strconv.Itoa(v.cluster.version))
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprint("uid-", object.GetName(), "-", v.cluster.version)))
	}
}

// Create stores a new object.
func (v versions) Create(r schema.GroupVersionResource, obj runtime.Object, namespace string, opts ...metav1.CreateOptions) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if _, err := v.Get(r, namespace, object.GetName()); err == nil {
		return apierrors.NewAlreadyExists(r.GroupResource(), object.GetName())
	}
	v.stamp(object)
	return v.ObjectTracker.Create(r, obj, namespace, opts...)
}

// Update stores an object, unless another object has the name now.
func (v versions) Update(r schema.GroupVersionResource, obj runtime.Object, namespace string, opts ...metav1.UpdateOptions) error {
	if err := v.replace(r, obj, namespace); err != nil {
		return err
	}
	return v.ObjectTracker.Update(r, obj, namespace, opts...)
}

// Patch stores the result of a patch, like Update.
func (v versions) Patch(r schema.GroupVersionResource, obj runtime.Object, namespace string, opts ...metav1.PatchOptions) error {
	if err := v.replace(r, obj, namespace); err != nil {
		return err
	}
	return v.ObjectTracker.Patch(r, obj, namespace, opts...)
}

func (v versions) replace(r schema.GroupVersionResource, obj runtime.Object, namespace string) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	stored, err := v.Get(r, namespace, object.GetName())
	if err != nil {
		return err
	}
	if was, err := meta.Accessor(stored); err != nil || was.GetUID() != object.GetUID() {
		return apierrors.NewConflict(r.GroupResource(), object.GetName(), fmt.Errorf("Precondition failed: UID in precondition: %s", object.GetUID()))
	}
	v.stamp(object)
	return nil
}

func (c *Cluster) answer(verb, subresource string, object client.Object) error {
	r := Request{verb, subresource, object}
	c.mu.Lock()
	c.requests = append(c.requests, r.String())
	c.mu.Unlock()
	if c.Answer == nil {
		return nil
	}
	return c.Answer(r)
}

// Requests returns the write requests since the last call.
func (c *Cluster) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.requests
	c.requests = nil
	return out
}

func (c *Cluster) intercept() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := c.answer("create", "", obj); err != nil {
				return err
			}
			if c.Change != nil {
				c.Change(obj)
			}
			return w.Create(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := c.answer("delete", "", obj); err != nil {
				return err
			}
			o := (&client.DeleteOptions{}).ApplyOptions(opts)
			stored := obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // the copy has the same type
			if err := w.Get(ctx, client.ObjectKeyFromObject(obj), stored); err != nil {
				return err
			}
			if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != stored.GetUID() {
				return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), fmt.Errorf("UID in precondition: %s", *p.UID))
			}
			return w.Delete(ctx, obj)
		},
		Patch: func(ctx context.Context, w client.WithWatch, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
			if err := c.answer("patch", "", obj); err != nil {
				return err
			}
			return w.Patch(ctx, obj, patch)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			if err := c.answer("patch", sub, obj); err != nil {
				return err
			}
			if kindOf(obj) != "Pod" {
				return w.SubResource(sub).Patch(ctx, obj, patch)
			}
			return patchPodStatus(ctx, w, obj, patch)
		},
	}
}

// patchPodStatus also changes the Pod's metadata, as real API servers do.
func patchPodStatus(ctx context.Context, w client.Client, obj client.Object, patch client.Patch) error {
	if err := w.Patch(ctx, obj, patch); err != nil {
		return err
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var body map[string]any
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	delete(body, "metadata")
	if data, err = json.Marshal(body); err != nil {
		return err
	}
	return w.Status().Patch(ctx, obj, client.RawPatch(patch.Type(), data))
}

// GetCache returns the cache, as a manager does.
func (c *Cluster) GetCache() cache.Cache { return c }

// GetClient returns a client of the server.
func (c *Cluster) GetClient() client.Client { return c.WithWatch }

// GetAPIReader returns a reader of the server.
func (c *Cluster) GetAPIReader() client.Reader { return c.WithWatch }

// GetScheme returns the scheme of client-go.
func (c *Cluster) GetScheme() *runtime.Scheme { return scheme.Scheme }

// Add stores a runnable for the test to start.
func (c *Cluster) Add(r manager.Runnable) error {
	c.Runnables = append(c.Runnables, r)
	return nil
}

// Get reads from the API server.
func (c *Cluster) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.WithWatch.Get(ctx, key, obj, opts...)
}

// List reads from the API server.
func (c *Cluster) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.WithWatch.List(ctx, list, opts...)
}

// GetInformer returns the informer for a kind.
func (c *Cluster) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind := reflect.TypeOf(obj)
	if c.informers[kind] == nil {
		c.informers[kind] = &informer{SharedIndexInformer: toolscache.NewSharedIndexInformer(nil, obj, 0, toolscache.Indexers{})}
	}
	return c.informers[kind], nil
}

// Deliver copies the server's objects to the cache, and calls the event handlers.
func (c *Cluster) Deliver(ctx context.Context) error {
	for kind, list := range map[reflect.Type]client.ObjectList{
		reflect.TypeFor[*corev1.Pod](): &corev1.PodList{}, reflect.TypeFor[*appsv1.ControllerRevision](): &appsv1.ControllerRevisionList{},
		reflect.TypeFor[*corev1.PersistentVolumeClaim](): &corev1.PersistentVolumeClaimList{}, reflect.TypeFor[*appsv1.ReplicaSet](): &appsv1.ReplicaSetList{},
	} {
		x := c.informers[kind]
		if x == nil {
			continue
		}
		if err := c.List(ctx, list); err != nil {
			return err
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		c.mu.Lock()
		version := c.version
		c.mu.Unlock()
		if err := x.show(objects, strconv.Itoa(version)); err != nil {
			return err
		}
	}
	return nil
}

// informer is an informer whose content changes only when its method show is called.
type informer struct {
	toolscache.SharedIndexInformer

	handlers []toolscache.ResourceEventHandler
}

// HasSynced returns true: the informer needs no first list, because only show changes its content.
func (x *informer) HasSynced() bool { return true }

// AddEventHandler stores the handler for show.
func (x *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	x.handlers = append(x.handlers, h)
	return nil, nil //nolint:nilnil // no test uses the registration
}

func (x *informer) show(objects []runtime.Object, version string) error {
	store := x.GetIndexer()
	gone := map[string]any{}
	for _, old := range store.List() {
		gone[old.(client.Object).GetNamespace()+"/"+old.(client.Object).GetName()] = old //nolint:forcetypeassert // all are objects
	}
	for _, object := range objects {
		object := object.(client.Object) //nolint:forcetypeassert // the cache holds only API objects
		key := object.GetNamespace() + "/" + object.GetName()
		old, known := gone[key]
		delete(gone, key)
		if known && old.(client.Object).GetResourceVersion() == object.GetResourceVersion() { //nolint:forcetypeassert // all are objects
			continue
		}
		if err := store.Update(object); err != nil {
			return err
		}
		for _, h := range x.handlers {
			if known {
				h.OnUpdate(old, object)
			} else {
				h.OnAdd(object, false)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		if err := store.Delete(gone[key]); err != nil {
			return err
		}
		for _, h := range x.handlers {
			h.OnDelete(gone[key])
		}
	}
	store.Bookmark(version)
	return nil
}
