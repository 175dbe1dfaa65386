package watchhealth_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
)

// Example is a manager with a webhook for Meshes. The kind may be installed after the manager's start.
func Example() {
	run := func(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, c client.WithWatch) error {
		mesh := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Mesh"}
		resources := map[schema.GroupVersionKind]watchhealth.Resource{mesh: {Plural: "meshes"}}
		crds, err := watchhealth.FollowCRDs(c, resources)
		if err != nil {
			return err
		}
		watches, err := watchhealth.New(watchhealth.Options{Scheme: scheme, Kinds: []schema.GroupVersionKind{mesh}, Presence: crds})
		if err != nil {
			return err
		}
		mgr, err := ctrl.NewManager(config, ctrl.Options{
			Scheme: scheme,
			Cache:  cache.Options{NewInformer: watches.NewInformer},
			MapperProvider: func(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
				next, err := apiutil.NewDynamicRESTMapper(config, c)
				return watchhealth.Mapper(next, resources), err
			},
		})
		if err != nil {
			return err
		}
		_ = func(ctx context.Context) error { // the webhook's first call
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := watches.Await(ctx, mesh); err != nil {
				return fmt.Errorf("come again: %w", err)
			}
			return nil // then read Meshes from mgr.GetClient()
		}
		go func() { _ = crds.Start(ctx) }() // before the manager, which waits for its caches
		return mgr.Start(ctx)
	}
	_ = run
	// Output:
}
