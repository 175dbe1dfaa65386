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

// perPod is the least time between the beginnings of two reconciles of an owner with many Pods, divided by the number
// of Pods: for 10,000 Pods, the least time is half a second. Each event of a Pod triggers a reconcile, and a
// reconcile reads all Pods of the owner. The delay limits the CPU time that large owners cost.
const perPod = 50 * time.Microsecond

// fewPods is the number of Pods below which the reconciles of an owner are not delayed.
const fewPods = 250

// paces records when the last reconcile of each owner with many Pods began, by UID.
type paces struct {
	clock clock.PassiveClock

	mu sync.Mutex
	at map[types.UID]pace
}

type pace struct {
	began time.Time
	pods  int
}

// begin records the beginning of a reconcile.
func (p *paces) begin(owner types.UID, pods int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pods < fewPods {
		delete(p.at, owner)
		return
	}
	p.at[owner] = pace{now, pods}
}

// rest returns how long the next reconcile of an owner must wait, or 0.
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

// paced is a reconciler that delays the reconciles of owners with many Pods. After a failed reconcile, only the
// back-off of the queue delays the next reconcile.
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
