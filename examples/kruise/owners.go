package kruise

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/ownercache"
)

// NewCache makes the cache of a controller built without [Parts]. The controller writes with c. The controller's
// options set the clock and the handling of late writes; kind has the rest.
func NewCache[O client.Object](ctx context.Context, mgr ownercache.Manager, c client.Client, owner O, options Options, kind ownercache.Options) (*ownercache.Cache[O], error) {
	var cache *ownercache.Cache[O]
	kind.Client, kind.Clock, kind.Alarm = c, options.Clock, options.ExpectationTimeout
	kind.DropLate = options.Gates[apps.GateForceDeleteTimeoutExpectation]
	kind.Observer = options.Metrics.Observer(func(pending expectations.Pending) (namespace, name string) { return nameOf(cache, pending) })
	cache, err := ownercache.New(ctx, mgr, owner, kind)
	return cache, err
}

// nameOf finds the name of an owner waiting for the cache.
func nameOf[O client.Object](cache *ownercache.Cache[O], pending expectations.Pending) (namespace, name string) {
	if owner, ok := cache.Owners.ByUID(pending.Owner); ok {
		return owner.GetNamespace(), owner.GetName()
	}
	return "", string(pending.Owner)
}

// AddController adds the loop of a controller built without [Parts] to the manager. watch adds further event sources
// for owners.
func AddController[O client.Object](
	mgr manager.Manager, cache *ownercache.Cache[O], name string, r reconcile.Reconciler, options Options, watch func(*builder.Builder) *builder.Builder,
) error {
	options = options.Complete()
	queue := ownercache.ControllerOptions{Workers: options.Workers, Watch: watch}
	if options.RateLimiter != nil {
		queue.RateLimiter = options.RateLimiter()
	}
	return cache.AddController(mgr, name, r, queue)
}
