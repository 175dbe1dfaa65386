package kruise

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/ownercache"
)

// NewCache makes the cache of owners and their Pods for a controller that is built without [Parts]. c is the client
// with which the controller writes. options contain the clock, and the alarm for writes that the cache does not show
// in time; own contains all other settings.
func NewCache[O client.Object](ctx context.Context, mgr ownercache.Manager, c client.Client, owner O, options Options, own ownercache.Options) (*ownercache.Cache[O], error) {
	var cache *ownercache.Cache[O]
	cache, err := ownercache.New(ctx, mgr, owner, CacheOptions(c, options, own, func() *ownercache.Cache[O] { return cache }))
	return cache, err
}

// CacheOptions returns own with the client, the clock, the metrics, and the alarm for writes that the cache does not
// show in time. The caller makes the cache from the result. The function cache must return this cache, and is called
// only later.
func CacheOptions[O client.Object](c client.Client, options Options, own ownercache.Options, cache func() *ownercache.Cache[O]) ownercache.Options {
	own.Client, own.Clock, own.Alarm = c, options.Clock, options.ExpectationTimeout
	own.DropLate = options.Gates[apps.GateForceDeleteTimeoutExpectation]
	own.Observer = options.Metrics.Observer(func(pending expectations.Pending) (namespace, name string) {
		if owner, ok := cache().Owners.ByUID(pending.Owner); ok {
			return owner.GetNamespace(), owner.GetName()
		}
		return "", string(pending.Owner)
	})
	return own
}
