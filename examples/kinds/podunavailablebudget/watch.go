package podunavailablebudget

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/fanout"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// strays remembers for which budgets no search for strays is needed. A stray is a Pod that a budget protects, and
// whose annotations lack the budget's name. A search reads all Pods of a namespace, and so is avoided. The zero value
// remembers no budgets.
type strays struct {
	mu    sync.Mutex
	clean map[types.UID]bool
}

// of calls look, which searches for strays, and returns the result. If no event about strays has occurred since the
// last search, of returns nil without a call of look. If an event occurs during a search, the next reconciliation
// searches again.
func (s *strays) of(budget types.UID, look func() []*corev1.Pod) []*corev1.Pod {
	s.mu.Lock()
	clean := s.clean[budget]
	if s.clean == nil {
		s.clean = map[types.UID]bool{}
	}
	s.clean[budget] = true
	s.mu.Unlock()
	if clean {
		return nil
	}
	return look()
}

// searchesAgain reports whether the next reconciliation of a budget must search for strays again: the names could not
// be written onto a Pod, another budget has to write some of the names and may be deleted before, or there were more
// strays than a reconciliation handles.
func searchesAgain(found, mine int, failed error) bool {
	return failed != nil || found > mine || mine > fanout.PerPass
}

// look makes the next reconciliation of a budget search for strays, Pods that lack the budget's name.
func (s *strays) look(budget types.UID) { s.forget(budget) }

func (s *strays) forget(budget types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clean, budget)
}

// watch adds event sources in addition to the Pods that name the budget: Pods that do not name the budget yet,
// workloads, and writes of the status by the webhook or users.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	b = b.Watches(&corev1.Pod{}, handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.found(e.Object, q) },
		// Every update is examined: if the cache has missed events, the cache may never have shown the version of the
		// Pod with the budget's name.
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { r.found(e.ObjectNew, q) },
	})
	b = b.Watches(&v1beta1.PodUnavailableBudget{}, handler.Funcs{UpdateFunc: statusChanged, DeleteFunc: r.budgetGone})
	for _, kind := range workloads.Kinds() {
		b = b.Watches(kind, r.workloadEvents())
	}
	return b
}

// found enqueues the budgets that protect the Pod but are not named in the Pod's annotations.
func (r *Reconciler) found(object client.Object, q queue) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	for _, budget := range r.unnamed(pod) {
		r.strays.look(budget.UID)
		q.Add(requestFor(budget))
	}
}

// statusChanged enqueues a budget after its status was written. The write of an admitted request may make a new count
// necessary, and may be the only event. The next reconciliation also reverts users' changes of the status.
func statusChanged(_ context.Context, e event.UpdateEvent, q queue) {
	before, ok := e.ObjectOld.(*v1beta1.PodUnavailableBudget)
	after, same := e.ObjectNew.(*v1beta1.PodUnavailableBudget)
	if ok && same && !equality.Semantic.DeepEqual(before.Status, after.Status) {
		q.Add(requestFor(after))
	}
}

// budgetGone enqueues the other budgets that protect the Pods of a deleted budget, so that these budgets search for the
// Pods.
func (r *Reconciler) budgetGone(_ context.Context, e event.DeleteEvent, q queue) {
	heirs := map[string]*v1beta1.PodUnavailableBudget{}
	for _, pod := range r.cache.Pods.In(e.Object.GetNamespace()) {
		if !slices.Contains(NamesIn(pod), e.Object.GetName()) {
			continue
		}
		for _, heir := range r.finder.Of(pod) {
			heirs[heir.Name] = heir
		}
	}
	for _, heir := range byName(heirs) {
		r.strays.look(heir.UID)
		q.Add(requestFor(heir))
	}
}

// workloadEvents returns a handler that enqueues the budgets of a workload when the workload is created, deleted or
// scaled.
func (r *Reconciler) workloadEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.wakeFor(e.Object, true, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.wakeFor(e.Object, false, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if workloads.Replicas(e.ObjectOld) != workloads.Replicas(e.ObjectNew) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
				(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences()) {
				r.wakeFor(e.ObjectNew, false, q)
			}
		},
	}
}

// wakeFor enqueues the budgets whose target is the workload or a controller above it, and the budgets that the
// workload's Pods name. Pods of a new workload may lack the names of their budgets, because their controller was
// unknown when the Pods were created.
func (r *Reconciler) wakeFor(object client.Object, isNew bool, q queue) {
	chain, _ := r.counts.workloads.Above(object)
	chain = append(chain, r.counts.workloads.RefTo(object))
	woken := map[string]*v1beta1.PodUnavailableBudget{}
	for _, uid := range r.counts.workloads.Below(object.GetNamespace(), object.GetUID()) {
		for _, pod := range r.cache.Pods.Of(object.GetNamespace(), uid) {
			for _, name := range NamesIn(pod) {
				if budget, ok := r.finder.Named(object.GetNamespace(), name); ok {
					woken[budget.Name] = budget
				}
			}
		}
	}
	for _, budget := range r.finder.For(object.GetNamespace(), chain...) {
		if isNew {
			r.strays.look(budget.UID)
		}
		woken[budget.Name] = budget
	}
	for _, budget := range byName(woken) {
		q.Add(requestFor(budget))
	}
}

// byName returns the budgets sorted by name, so that the order of enqueueing is fixed.
func byName(of map[string]*v1beta1.PodUnavailableBudget) (in []*v1beta1.PodUnavailableBudget) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		in = append(in, of[name])
	}
	return in
}

func requestFor(budget client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(budget)}
}
