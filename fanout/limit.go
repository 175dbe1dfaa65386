package fanout

import (
	"context"
	"sync"
)

// limit bounds the requests that are under way: so many for each group, and one more than that in all, so that no group has all
// of them. Whoever waits longest comes first.
type limit struct {
	perGroup int
	total    chan struct{}

	mu     sync.Mutex
	groups map[string]*group
}

// group is the share of one group, for as long as somebody uses it or waits.
type group struct {
	places chan struct{}
	users  int
}

func newLimit(perGroup int) *limit {
	return &limit{perGroup: perGroup, total: make(chan struct{}, perGroup+1), groups: map[string]*group{}}
}

// take waits for a place and returns how to give it back, or the cause of ctx when that ends first.
func (l *limit) take(ctx context.Context, name string) (done func(), err error) {
	g := l.join(name)
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		l.leave(name, g)
		return nil, context.Cause(ctx)
	}
	select {
	case l.total <- struct{}{}:
	case <-ctx.Done():
		<-g.places
		l.leave(name, g)
		return nil, context.Cause(ctx)
	}
	return func() {
		<-l.total
		<-g.places
		l.leave(name, g)
	}, nil
}

func (l *limit) join(name string) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[name]
	if g == nil {
		g = &group{places: make(chan struct{}, l.perGroup)}
		l.groups[name] = g
	}
	g.users++
	return g
}

func (l *limit) leave(name string, g *group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(l.groups, name)
	}
}
