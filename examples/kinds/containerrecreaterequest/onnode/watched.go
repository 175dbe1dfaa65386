package onnode

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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why the agent cannot read requests.
const (
	// KindAwaited means that the API server does not serve ContainerRecreateRequests yet.
	KindAwaited reason.Code = "KindAwaited"
	// RequestsAwaited means that the ContainerRecreateRequests of the Node have not been listed yet.
	RequestsAwaited reason.Code = "RequestsAwaited"
)

// versions returns the API versions that the agent supports, the preferred version first. A manager of OpenKruise 1.9.0
// serves only v1alpha1.
func versions() []schema.GroupVersion {
	return []schema.GroupVersion{v1beta1.GroupVersion, v1alpha1.GroupVersion}
}

const resourceName = "containerrecreaterequests"

// Watched provides the requests of a Node that have not ended, in the version that the API server serves. If the
// version is no longer served, Watched changes to another version without a restart of the agent. A Watched is safe for
// concurrent use. NewWatched makes a Watched.
type Watched struct {
	node      string
	client    dynamic.Interface
	discovery rest.Interface
	wake      func(types.NamespacedName)
	clock     clock.WithTicker

	mu      sync.Mutex
	current *view // nil before the requests were listed for the first time
	missing reason.Reason
}

// view contains the requests in a version.
type view struct {
	*Cached

	informer cache.SharedIndexInformer
}

func (r *Watched) view() *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// NewWatched returns a Watched for the requests of a Node. wake is called with the Pod of each request that was
// created, changed or deleted. NewWatched sends no request to the API server; Start does.
func NewWatched(config *rest.Config, node string, wake func(pod types.NamespacedName)) (*Watched, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("requests of the agent: %w", err)
	}
	answers, err := agent.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("discovery of the agent: %w", err)
	}
	return &Watched{node: node, client: objects, discovery: answers, wake: wake, clock: clock.RealClock{}}, nil
}

// Of implements Requests.
func (r *Watched) Of(pod types.NamespacedName) (requests []*v1beta1.ContainerRecreateRequest, wait time.Duration) {
	if v := r.view(); v != nil {
		return v.Of(pod)
	}
	return nil, 0
}

// PatchStatus implements Requests.
func (r *Watched) PatchStatus(ctx context.Context, request *v1beta1.ContainerRecreateRequest, status v1beta1.ContainerRecreateRequestStatus) error {
	return r.view().PatchStatus(ctx, request, status)
}

// Missing returns why the agent has no requests; the code is empty if the requests have been listed.
func (r *Watched) Missing() reason.Reason {
	r.mu.Lock()
	missing, v := r.missing, r.current
	r.mu.Unlock()
	switch {
	case missing.Code != "": // requests in a version that is no longer served are outdated
		return missing
	case v != nil && v.informer.HasSynced():
		return reason.Reason{}
	}
	return reason.Reason{Code: RequestsAwaited, Remedy: "see whether the API server answers, and whether the agent may list and watch " + resourceName}
}

// Start watches the requests until the context ends.
func (r *Watched) Start(ctx context.Context) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Minute}
	for ctx.Err() == nil {
		version, err := r.served(ctx)
		if err == nil {
			backoff.Duration, backoff.Steps = time.Second, 10
			r.follow(ctx, version)
			continue
		}
		r.mu.Lock()
		r.missing = reason.Reason{Code: KindAwaited, Detail: reason.Shorten(err.Error(), 256), Remedy: "install the CRD " + resourceName + "." + apps.Group}
		r.mu.Unlock()
		timer := r.clock.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C():
		}
	}
	return nil
}

// served returns the API version in which requests are read now.
func (r *Watched) served(ctx context.Context) (schema.GroupVersion, error) {
	var last error
	for _, version := range versions() {
		list, err := r.resources(ctx, version)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return version, fmt.Errorf("ask for the kinds of %s: %w", version, err)
		case err != nil:
			last = err
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resourceName }):
			return version, nil
		default:
			last = fmt.Errorf("%s has no %s", version, resourceName)
		}
	}
	return schema.GroupVersion{}, last
}

// resources asks the API server which resources it serves in a version. A discovery client is not used, because it
// would cost the agent megabytes of memory.
func (r *Watched) resources(ctx context.Context, version schema.GroupVersion) (list metav1.APIResourceList, err error) {
	raw, err := r.discovery.Get().AbsPath("/apis", version.Group, version.Version).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return list, err
	}
	return list, json.Unmarshal(raw, &list)
}

// follow watches the requests of a version, until the context ends or the version is no longer served.
func (r *Watched) follow(ctx context.Context, version schema.GroupVersion) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	informer := cache.NewSharedIndexInformer(r.listWatch(version), &unstructured.Unstructured{}, 0, cache.Indexers{})
	for _, err := range []error{
		informer.SetTransform(read),
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
		AddFunc: r.woken, UpdateFunc: func(_, object any) { r.woken(object) }, DeleteFunc: r.woken,
	})
	if err != nil {
		panic(err) // an error is possible only for an informer that has ended
	}
	cached, err := NewCached(informer.GetIndexer(), version.WithResource(resourceName).GroupResource(), r.patch(version))
	if err != nil {
		panic(err) // an error is possible only for an informer with content
	}
	r.mu.Lock()
	r.missing, r.current = reason.Reason{}, &view{cached, informer}
	r.mu.Unlock()
	informer.RunWithContext(ctx)
}

// patch returns a function that writes to the status of a request in a version.
func (r *Watched) patch(version schema.GroupVersion) Patch {
	resource := r.client.Resource(version.WithResource(resourceName))
	return func(ctx context.Context, request types.NamespacedName, patch []byte) (string, error) {
		written, err := resource.Namespace(request.Namespace).Patch(ctx, request.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return "", err
		}
		return written.GetResourceVersion(), nil
	}
}

func (r *Watched) listWatch(version schema.GroupVersion) *cache.ListWatch {
	resource := r.client.Resource(version.WithResource(resourceName))
	selector := labels.Set{apps.LabelRequestNodeName: r.node, apps.LabelRequestActive: "true"}.String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return resource.Watch(ctx, options)
		},
	}
}

// read converts an object from the API server to v1beta1. An object that cannot be converted is kept as it was
// received, so that the requests for other Pods are not delayed.
func read(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	request := &v1beta1.ContainerRecreateRequest{}
	if err := decodeInto(u, request); err != nil {
		return object, nil //nolint:nilerr // the object is kept unconverted
	}
	request.ManagedFields = nil
	return request, nil
}

func decodeInto(u *unstructured.Unstructured, request *v1beta1.ContainerRecreateRequest) error {
	raw, err := u.MarshalJSON()
	if err == nil {
		raw, err = conversion.JSON(raw, v1beta1.GroupVersion.String())
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, request)
}

// woken calls wake with the Pod of a request.
func (r *Watched) woken(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if request, ok := object.(*v1beta1.ContainerRecreateRequest); ok {
		r.wake(types.NamespacedName{Namespace: request.Namespace, Name: request.Spec.PodName})
	}
}
