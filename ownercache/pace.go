package ownercache

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// perPod is the least time, per Pod of an owner, between the beginnings of two passes of an owner with many Pods: half
// a second for 10,000 Pods. A pass reads all Pods of its owner, and each event of a Pod triggers a pass. Because of
// perPod, large owners use only a small part of a core.
const perPod = 50 * time.Microsecond

// fewPods is the number of Pods below which passes are not delayed.
const fewPods = 250

// paces records, for each owner with many Pods, when its last pass began, by UID.
type paces struct {
	clock clock.PassiveClock

	mu sync.Mutex
	at map[types.UID]pace
}

type pace struct {
	began time.Time
	pods  int
}

// begin records the beginning of a pass.
func (p *paces) begin(owner types.UID, pods int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pods < fewPods {
		delete(p.at, owner)
		return
	}
	p.at[owner] = pace{now, pods}
}

// rest returns how long the next pass of an owner must wait, or 0.
func (p *paces) rest(owner types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.at[owner]
	if !ok {
		return 0
	}
	return max(0, time.Duration(last.pods)*perPod-p.clock.Since(last.began))
}

func (p *paces) forget(owner types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, owner)
}

// paced delays passes of owners with many Pods. A failed pass is delayed only by its own back-off.
type paced[O client.Object] struct {
	cache *Cache[O]
	inner reconcile.Reconciler
}

// Reconcile calls the wrapped reconciler, or requeues the request for later.
func (p *paced[O]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	owner, ok := p.cache.Owners.Get(req.Namespace, req.Name)
	if !ok {
		return p.inner.Reconcile(ctx, req)
	}
	if rest := p.cache.paces.rest(owner.GetUID()); rest > 0 {
		return ctrl.Result{RequeueAfter: rest}, nil
	}
	result, err := p.inner.Reconcile(ctx, req)
	if err != nil {
		p.cache.paces.forget(owner.GetUID())
	}
	return result, err
}
