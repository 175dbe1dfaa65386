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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why the agent does not know which probes to run.
const (
	// ProbesNotServed means that the API server does not serve NodePodProbes, for example because the feature is off.
	ProbesNotServed reason.Code = "ProbesNotServed"
	// ProbesAwaited means that the NodePodProbe of the Node has not been listed yet.
	ProbesAwaited reason.Code = "ProbesAwaited"
)

const resourceName = "nodepodprobes"

// Watched provides the NodePodProbe of a Node. While the API server does not serve the kind, Watched asks again from
// time to time. A Watched is safe for concurrent use. NewWatched makes a Watched.
type Watched struct {
	node      string
	client    dynamic.ResourceInterface
	discovery rest.Interface
	wake      func()
	clock     clock.WithTicker

	mu      sync.Mutex
	current *v1alpha1.NodePodProbe
	synced  func() bool
	missing reason.Reason
}

// NewWatched returns a Watched for the NodePodProbe of a Node. wake is called when the object was created, changed or
// deleted. NewWatched sends no request to the API server; Start does.
func NewWatched(config *rest.Config, node string, wake func()) (*Watched, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("probes of the agent: %w", err)
	}
	answers, err := agent.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("discovery of the agent: %w", err)
	}
	return &Watched{
		node: node, client: objects.Resource(v1alpha1.GroupVersion.WithResource(resourceName)), discovery: answers, wake: wake, clock: clock.RealClock{},
	}, nil
}

// List implements Lists.
func (w *Watched) List() *v1alpha1.NodePodProbe {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// PatchStatus implements Lists.
func (w *Watched) PatchStatus(ctx context.Context, uid types.UID, status v1alpha1.NodePodProbeStatus) error {
	states := status.PodProbeStatuses
	if states == nil {
		states = []v1alpha1.PodProbeStatus{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": map[string]any{"podProbeStatuses": states}})
	if err != nil {
		return fmt.Errorf("results of probes: %w", err)
	}
	written, err := w.client.Patch(ctx, w.node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("results of probes: %w", err)
	}
	w.keep(written)
	return nil
}

// Missing returns why the agent does not know which probes to run; the code is empty if the agent does.
func (w *Watched) Missing() reason.Reason {
	w.mu.Lock()
	missing, synced := w.missing, w.synced
	w.mu.Unlock()
	switch {
	case missing.Code != "":
		return missing
	case synced != nil && synced():
		return reason.Reason{}
	}
	return reason.Reason{Code: ProbesAwaited, Remedy: "see whether the API server answers, and whether the agent may list and watch " + resourceName}
}

// Start watches the object until the context ends.
func (w *Watched) Start(ctx context.Context) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Minute}
	for ctx.Err() == nil {
		if err := w.served(ctx); err != nil {
			w.lack(err)
			timer := w.clock.NewTimer(backoff.Step())
			select {
			case <-ctx.Done():
				timer.Stop()
			case <-timer.C():
			}
			continue
		}
		backoff.Duration, backoff.Steps = time.Second, 10
		w.follow(ctx)
	}
	return nil
}

// lack forgets the probes, because nobody wants probes of a kind that is no longer served.
func (w *Watched) lack(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missing = reason.Reason{Code: ProbesNotServed, Detail: reason.Shorten(err.Error(), 256), Remedy: "install the CRD " + resourceName + "." + apps.Group}
	if apierrors.IsNotFound(err) {
		w.current = nil
		w.wake()
	}
}

// served returns an error unless the API server serves the kind.
func (w *Watched) served(ctx context.Context) error {
	version := v1alpha1.GroupVersion
	raw, err := w.discovery.Get().AbsPath("/apis", version.Group, version.Version).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("ask for the kinds of %s: %w", version, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("kinds of %s: %w", version, err)
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resourceName }) {
		return apierrors.NewNotFound(schema.GroupResource{Group: version.Group, Resource: resourceName}, "")
	}
	return nil
}

// follow watches the object, until the context ends or the kind is no longer served.
func (w *Watched) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	informer := cache.NewSharedIndexInformer(w.listWatch(), &unstructured.Unstructured{}, 0, cache.Indexers{})
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			cancel()
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	})
	if err != nil {
		panic(err) // an error is possible only for a running informer
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.seen, UpdateFunc: func(_, object any) { w.seen(object) }, DeleteFunc: func(any) { w.gone() },
	})
	if err != nil {
		panic(err) // an error is possible only for an informer that has ended
	}
	w.mu.Lock()
	w.missing, w.synced = reason.Reason{}, informer.HasSynced
	w.mu.Unlock()
	informer.RunWithContext(ctx)
}

func (w *Watched) listWatch() *cache.ListWatch {
	selector := fields.OneTermEqualSelector("metadata.name", w.node).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return w.client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return w.client.Watch(ctx, options)
		},
	}
}

func (w *Watched) seen(object any) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		w.keep(u)
		w.wake()
	}
}

func (w *Watched) gone() {
	w.mu.Lock()
	w.current = nil
	w.mu.Unlock()
	w.wake()
}

// keep keeps an object, unless a newer version of the object is known from an own write.
func (w *Watched) keep(u *unstructured.Unstructured) {
	list := &v1alpha1.NodePodProbe{}
	raw, err := u.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, list)
	}
	if err != nil {
		return // the object is not a NodePodProbe; the last one counts
	}
	list.ManagedFields = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil && w.current.UID == list.UID {
		if order, err := resourceversion.CompareResourceVersion(w.current.ResourceVersion, list.ResourceVersion); err == nil && order > 0 {
			return
		}
	}
	w.current = list
}
