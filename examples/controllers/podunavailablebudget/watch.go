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
	"github.com/workloadkit/workloadkit/examples/budgets"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// strays says for which budgets it is known that all Pods name them. Looking for others takes all Pods of a namespace. The zero value knows nothing.
type strays struct {
	mu    sync.Mutex
	clean map[types.UID]bool
}

// of looks for Pods unless nothing has happened since that was done. What happens meanwhile is looked for again.
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

// look has the next pass of a budget look for Pods.
func (s *strays) look(budget types.UID) { s.forget(budget) }

func (s *strays) forget(budget types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clean, budget)
}

// watch wakes budgets for what their Pods do not tell: Pods that do not name them yet, workloads, and what others write to their status.
func (r *Reconciler) watch(b *builder.Builder) *builder.Builder {
	b = b.Watches(&corev1.Pod{}, handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.found(e.Object, q) },
		// Whatever has changed: a new list need not show that a Pod was marked, and lost the mark.
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { r.found(e.ObjectNew, q) },
	})
	b = b.Watches(&v1beta1.PodUnavailableBudget{}, handler.Funcs{UpdateFunc: statusChanged, DeleteFunc: r.budgetGone})
	for _, kind := range budgets.Kinds() {
		b = b.Watches(kind, r.workloadEvents())
	}
	return b
}

// found wakes the budgets that a Pod has and does not name.
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

// statusChanged wakes a budget whose status was written: from what was let go it may have to count again without another event, and what somebody
// has written by hand does not stay.
func statusChanged(_ context.Context, e event.UpdateEvent, q queue) {
	before, ok := e.ObjectOld.(*v1beta1.PodUnavailableBudget)
	after, same := e.ObjectNew.(*v1beta1.PodUnavailableBudget)
	if ok && same && !equality.Semantic.DeepEqual(before.Status, after.Status) {
		q.Add(requestFor(after))
	}
}

// budgetGone has those look for the Pods of a budget that is gone which are for them now.
func (r *Reconciler) budgetGone(_ context.Context, e event.DeleteEvent, q queue) {
	heirs := map[string]*v1beta1.PodUnavailableBudget{}
	for _, pod := range r.cache.Pods.In(e.Object.GetNamespace()) {
		if !slices.Contains(budgets.NamesIn(pod), e.Object.GetName()) {
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

// workloadEvents wakes the budgets of a workload that comes, goes, or should have another number of Pods.
func (r *Reconciler) workloadEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { r.wakeFor(e.Object, true, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { r.wakeFor(e.Object, false, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if budgets.Replicas(e.ObjectOld) != budgets.Replicas(e.ObjectNew) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
				(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences()) {
				r.wakeFor(e.ObjectNew, false, q)
			}
		},
	}
}

// wakeFor wakes the budgets whose target a workload is or belongs to, and those that its Pods name. Pods of a new one may not name theirs: who
// controls them was not known when they were created.
func (r *Reconciler) wakeFor(object client.Object, isNew bool, q queue) {
	chain, _ := r.counts.workloads.Above(object)
	chain = append(chain, r.counts.workloads.RefTo(object))
	woken := map[string]*v1beta1.PodUnavailableBudget{}
	for _, uid := range r.counts.workloads.Below(object.GetNamespace(), object.GetUID()) {
		for _, pod := range r.cache.Pods.Of(object.GetNamespace(), uid) {
			for _, name := range budgets.NamesIn(pod) {
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

// byName puts budgets in an order, so that they are woken in one.
func byName(of map[string]*v1beta1.PodUnavailableBudget) (in []*v1beta1.PodUnavailableBudget) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		in = append(in, of[name])
	}
	return in
}

func requestFor(budget client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(budget)}
}
