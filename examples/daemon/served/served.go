// Package served watches the objects of a kind for a node agent, in an API version that the API server serves.
//
// An agent may start before its CRDs are installed, and works with managers that serve other versions. If a version is
// no longer served, [Objects] changes to another version without a restart of the agent.
package served

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the reasons why an agent has not read the objects of a kind.
const (
	// KindAwaited means that the API server does not serve the kind yet.
	KindAwaited reason.Code = "KindAwaited"
	// ObjectsAwaited means that the objects for the Node have not been listed yet.
	ObjectsAwaited reason.Code = "ObjectsAwaited"
)

// Kind describes the objects that an agent needs.
type Kind struct {
	// Group and Resource are the group and the plural name of the kind.
	Group, Resource string
	// Versions are the supported API versions, the preferred version first.
	Versions []string
	// Select restricts the list options to the objects for the Node.
	Select func(*metav1.ListOptions)
	// Read converts an object from the API server to the type that the agent uses.
	Read cache.TransformFunc
}

// Read returns a function for Kind.Read. Convert changes the JSON of an object to the version of the Go type T; nil
// if there is a single version. An object that cannot be converted or decoded is stored as received, so that the
// watch continues for other objects. Readers of the store must check the type.
func Read[T any, O interface {
	*T
	metav1.Object
}](convert func([]byte) ([]byte, error)) cache.TransformFunc {
	return func(object any) (any, error) {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return object, nil
		}
		out := O(new(T))
		raw, err := u.MarshalJSON()
		if err == nil && convert != nil {
			raw, err = convert(raw)
		}
		if err == nil {
			err = json.Unmarshal(raw, out)
		}
		if err != nil {
			return object, nil //nolint:nilerr // the object is kept as received
		}
		out.SetManagedFields(nil)
		return out, nil
	}
}

// Objects watches the objects of a kind for an agent. Objects is safe for concurrent use. Make Objects with New.
type Objects struct {
	kind      Kind
	client    dynamic.Interface
	discovery rest.Interface
	changed   func(object any)
	begun     func(*View)
	clock     clock.WithTicker

	mu      sync.Mutex
	current *View // nil before the kind was served for the first time
	missing reason.Reason
}

// View contains the objects in an API version.
type View struct {
	// Store contains the objects as Kind.Read returns them.
	Store cache.Indexer
	// Resource is the resource in the View's version.
	Resource schema.GroupVersionResource

	synced func() bool
	client dynamic.Interface
}

// New returns Objects. changed is called with each object that was created, changed or deleted, in the form of the
// store. New calls begun with each View before the first object is read, so that begun can add indexes; begun may be
// nil. New sends no request to the API server; Start does.
func New(config *rest.Config, kind Kind, changed func(object any), begun func(*View)) (*Objects, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%s of the agent: %w", kind.Resource, err)
	}
	answers, err := agent.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("discovery of the agent: %w", err)
	}
	return &Objects{kind: kind, client: objects, discovery: answers, changed: changed, begun: begun, clock: clock.RealClock{}}, nil
}

// View returns the present objects, or nil before the API server has served the kind.
func (o *Objects) View() *View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current
}

// Missing returns the reason why the agent has no objects; the code is empty if the objects have been listed.
func (o *Objects) Missing() reason.Reason {
	o.mu.Lock()
	missing, v := o.missing, o.current
	o.mu.Unlock()
	switch {
	case missing.Code != "": // objects of a version that is no longer served may be outdated
		return missing
	case v != nil && v.synced():
		return reason.Reason{}
	}
	return reason.Reason{
		Code: ObjectsAwaited, New: o.kind.Resource,
		Remedy: "see whether the API server answers, and whether the agent may list and watch " + o.kind.Resource,
	}
}

// Start watches the objects until the context ends. Start returns no error.
func (o *Objects) Start(ctx context.Context) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Minute}
	for ctx.Err() == nil {
		version, err := o.served(ctx)
		if err == nil {
			backoff.Duration, backoff.Steps = time.Second, 10
			o.follow(ctx, version)
			continue
		}
		o.mu.Lock()
		o.missing = reason.Reason{
			Code: KindAwaited, New: o.kind.Resource, Detail: reason.Shorten(err.Error(), 256),
			Remedy: "install the CRD " + o.kind.Resource + "." + o.kind.Group,
		}
		o.mu.Unlock()
		timer := o.clock.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C():
		}
	}
	return nil
}

// served returns the first supported API version that the API server serves.
func (o *Objects) served(ctx context.Context) (string, error) {
	var last error
	for _, version := range o.kind.Versions {
		list, err := o.resources(ctx, version)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return version, fmt.Errorf("ask for the kinds of %s/%s: %w", o.kind.Group, version, err)
		case err != nil:
			last = err
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == o.kind.Resource }):
			return version, nil
		default:
			last = fmt.Errorf("%s/%s has no %s", o.kind.Group, version, o.kind.Resource)
		}
	}
	return "", last
}

// resources asks the API server which resources it serves in a version. A discovery client is not used, because it
// would cost the agent megabytes of memory.
func (o *Objects) resources(ctx context.Context, version string) (list metav1.APIResourceList, err error) {
	raw, err := o.discovery.Get().AbsPath("/apis", o.kind.Group, version).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return list, err
	}
	return list, json.Unmarshal(raw, &list)
}

// follow watches the objects of a version, until the context ends or the version is no longer served.
func (o *Objects) follow(ctx context.Context, version string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resource := schema.GroupVersionResource{Group: o.kind.Group, Version: version, Resource: o.kind.Resource}
	informer := cache.NewSharedIndexInformer(o.listWatch(resource), &unstructured.Unstructured{}, 0, cache.Indexers{})
	for _, err := range []error{
		informer.SetTransform(o.kind.Read),
		informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
			if apierrors.IsNotFound(err) {
				cancel()
				return
			}
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		}),
	} {
		if err != nil {
			panic(err) // an error is possible only for a running informer
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: o.woken, UpdateFunc: func(_, object any) { o.woken(object) }, DeleteFunc: o.woken,
	})
	if err != nil {
		panic(err) // an error is possible only for an informer that has ended
	}
	view := &View{Store: informer.GetIndexer(), Resource: resource, synced: informer.HasSynced, client: o.client}
	if o.begun != nil {
		o.begun(view)
	}
	o.mu.Lock()
	o.missing, o.current = reason.Reason{}, view
	o.mu.Unlock()
	informer.RunWithContext(ctx)
}

// woken calls the function changed. If the watch has missed the deletion of an object, the argument is the last known
// state of the object.
func (o *Objects) woken(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	o.changed(object)
}

func (o *Objects) listWatch(resource schema.GroupVersionResource) *cache.ListWatch {
	client := o.client.Resource(resource)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			o.kind.Select(&options)
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			o.kind.Select(&options)
			return client.Watch(ctx, options)
		},
	}
}

// PatchStatus writes a merge patch to the status of an object in the View's version, and returns the written object.
// The namespace is empty for cluster-scoped kinds.
func (v *View) PatchStatus(ctx context.Context, object types.NamespacedName, patch []byte) (*unstructured.Unstructured, error) {
	var client dynamic.ResourceInterface = v.client.Resource(v.Resource)
	if object.Namespace != "" {
		client = v.client.Resource(v.Resource).Namespace(object.Namespace)
	}
	return client.Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
}
