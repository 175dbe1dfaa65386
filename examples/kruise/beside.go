package kruise

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
)

// beside is the cache of objects that a workload owns in addition to Pods, such as ContainerRecreateRequests or
// ImagePullJobs. The workload is reconciled even if the API server does not serve the kind of these objects.
type beside[T client.Object] struct {
	*ownercache.Index[T]

	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
	presence func(schema.GroupVersionKind) watchhealth.State
}

func newBeside[T client.Object](ctx context.Context, mgr Manager, options Options, like T) (*beside[T], error) {
	b := &beside[T]{presence: options.Presence}
	var err error
	if b.kind, err = apiutil.GVKForObject(like, mgr.GetScheme()); err != nil {
		return nil, fmt.Errorf("kind of objects besides Pods: %w", err)
	}
	b.resource, _ = meta.UnsafeGuessKindToResource(b.kind)
	b.Index, err = ownercache.NewIndex(ctx, mgr.GetCache(), like)
	return b, err
}

// areServed reports whether the API server serves the objects in the version that the cache uses.
func (b *beside[T]) areServed() bool { return b.presence(b.kind) == watchhealth.Served }

// source returns the cache as a trackedclient.Source that may be missing: the cache is ignored while the API server
// does not serve the kind.
func (b *beside[T]) source() trackedclient.Source {
	source := trackedclient.Owners(b.resource.GroupResource(), b.kind, b)
	source.Served = b.areServed
	return source
}
