package execprovider

import (
	"context"
	"sync"
	"time"

	"github.com/workloadkit/workloadkit/node/pullsecret"
)

// cacheKey says for which images a cached response is valid: a single image, all images of a registry, or all images.
type cacheKey struct{ image, registry string }

// keys returns the keys under which a response for an image may be cached, in the order of the lookup.
func keys(image pullsecret.Image) []cacheKey {
	return []cacheKey{{image: image.String()}, {registry: image.Host}, {}}
}

// keyFor returns the key under which a response with the cacheKeyType is cached.
func keyFor(kind cacheKeyType, image pullsecret.Image) cacheKey {
	all := keys(image)
	switch kind {
	case perImage:
		return all[0]
	case perRegistry:
		return all[1]
	default:
		return all[2]
	}
}

// cached is a cached response.
type cached struct {
	credentials []pullsecret.Credential
	expires     time.Time
}

func (p *provider) fromCache(image pullsecret.Image) ([]pullsecret.Credential, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	for _, key := range keys(image) {
		if c, found := p.cache[key]; found && !now.After(c.expires) {
			return c.credentials, true
		}
	}
	return nil, false
}

// remember caches a response, and removes expired responses.
func (p *provider) remember(image pullsecret.Image, answer *response, credentials []pullsecret.Credential) {
	duration := p.defaultCache()
	if answer.CacheDuration != nil {
		duration = answer.CacheDuration.Duration
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	for key, c := range p.cache {
		if now.After(c.expires) {
			delete(p.cache, key)
		}
	}
	if duration > 0 {
		p.cache[keyFor(answer.CacheKeyType, image)] = cached{credentials: credentials, expires: now.Add(duration)}
	}
}

func (p *provider) forget(image pullsecret.Image) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys(image) {
		delete(p.cache, key)
	}
}

// turns is a set of locks by name: for each name, only one caller at a time holds the lock.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

// turn is the lock of a name, with the number of callers that work or wait.
type turn struct {
	busy    chan struct{}
	callers int
}

// wait returns when the caller holds the lock of the name, or returns an error when the context ends. The caller must
// call done to release the lock.
func (t *turns) wait(ctx context.Context, name string) (done func(), err error) {
	t.mu.Lock()
	mine := t.of[name]
	if mine == nil {
		mine = &turn{busy: make(chan struct{}, 1)}
		t.of[name] = mine
	}
	mine.callers++
	t.mu.Unlock()
	select {
	case mine.busy <- struct{}{}:
		return func() { <-mine.busy; t.leave(name, mine) }, nil
	case <-ctx.Done():
		t.leave(name, mine)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(name string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.callers--; mine.callers == 0 {
		delete(t.of, name)
	}
}
