package onnode

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/daemon/served"
	"github.com/workloadkit/workloadkit/reason"
)

// Watched provides the requests of a Node that have not ended, in the version that the API server serves. A Watched is
// safe for concurrent use. NewWatched makes a Watched.
type Watched struct {
	objects *served.Objects
	cached  atomic.Pointer[Cached] // nil until the first list of requests
}

// NewWatched returns a Watched for the requests of a Node. wake is called with the Pod of each request that was
// created, changed or deleted. NewWatched sends no request to the API server; Start does.
func NewWatched(config *rest.Config, node string, wake func(pod types.NamespacedName)) (*Watched, error) {
	selector := labels.Set{apps.LabelRequestNodeName: node, apps.LabelRequestActive: "true"}.String()
	kind := served.Kind{
		Group: apps.Group, Resource: "containerrecreaterequests",
		Versions: []string{v1beta1.GroupVersion.Version, v1alpha1.GroupVersion.Version}, // a manager of OpenKruise 1.9.0 serves only v1alpha1
		Select:   func(options *metav1.ListOptions) { options.LabelSelector = selector },
		Read: served.Read[v1beta1.ContainerRecreateRequest](func(raw []byte) ([]byte, error) {
			return conversion.JSON(raw, v1beta1.GroupVersion.String())
		}),
	}
	r := &Watched{}
	var err error
	r.objects, err = served.New(config, kind, func(object any) {
		if request, ok := object.(*v1beta1.ContainerRecreateRequest); ok {
			wake(types.NamespacedName{Namespace: request.Namespace, Name: request.Spec.PodName})
		}
	}, r.begin)
	return r, err
}

func (r *Watched) begin(v *served.View) {
	cached, err := NewCached(v.Store, v.Resource.GroupResource(), func(ctx context.Context, request types.NamespacedName, patch []byte) (string, error) {
		written, err := v.PatchStatus(ctx, request, patch)
		if err != nil {
			return "", err
		}
		return written.GetResourceVersion(), nil
	})
	if err != nil {
		panic(err) // an error is possible only for a store with content
	}
	r.cached.Store(cached)
}

// Of implements Requests.
func (r *Watched) Of(pod types.NamespacedName) (requests []*v1beta1.ContainerRecreateRequest, wait time.Duration) {
	if cached := r.cached.Load(); cached != nil {
		return cached.Of(pod)
	}
	return nil, 0
}

// PatchStatus implements Requests.
func (r *Watched) PatchStatus(ctx context.Context, request *v1beta1.ContainerRecreateRequest, status v1beta1.ContainerRecreateRequestStatus) error {
	return r.cached.Load().PatchStatus(ctx, request, status)
}

// Missing returns why the agent has no requests; the code is empty if the requests have been listed.
func (r *Watched) Missing() reason.Reason { return r.objects.Missing() }

// Start watches the requests until the context ends.
func (r *Watched) Start(ctx context.Context) error { return r.objects.Start(ctx) }
