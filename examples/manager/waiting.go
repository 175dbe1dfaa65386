package manager

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// endingCache is a cache whose WaitForCacheSync returns when the manager must stop, even if the caches are not
// filled. Without endingCache, controller-runtime 0.24 waits for a cache as long as the cache's list request fails:
// neither a cancelled context nor an error of the API server ends the wait (runnableGroup.Start in
// pkg/manager/runnable_group.go). A list request can fail for as long as conversion webhooks are down.
type endingCache struct {
	cache.Cache

	ended <-chan struct{}
}

// newEndingCache returns a function for manager.Options.NewCache. The caches stop waiting when the channel ended is
// closed.
func newEndingCache(ended <-chan struct{}) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		c, err := cache.New(config, options)
		return &endingCache{c, ended}, err
	}
}

// WaitForCacheSync returns true once all caches are filled or the manager must stop.
func (c *endingCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-c.ended:
			cancel()
		case <-done:
		}
	}()
	synced := c.Cache.WaitForCacheSync(ctx)
	select {
	case <-c.ended:
		return true
	default:
		return synced
	}
}
