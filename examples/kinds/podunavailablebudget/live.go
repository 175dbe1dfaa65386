package podunavailablebudget

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// of returns the budgets that protect a Pod. If the Pod's annotations name a budget that the cache does not have, the
// budget may be new, and is read from the API server. While the cache is not up to date, all budgets are read from the
// API server.
func (b *Budgets) of(ctx context.Context, pod *corev1.Pod, operation disruption.Operation, patience time.Duration) ([]*v1beta1.PodUnavailableBudget, error) {
	if b.Current != nil {
		waits, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if late := b.Current(waits); late != nil {
			return b.listed(ctx, pod, operation, late)
		}
	}
	of := b.Of(pod)
	for _, name := range NamesIn(pod) {
		named, cached := b.Named(pod.Namespace, name)
		if !cached {
			named = &v1beta1.PodUnavailableBudget{}
			err := b.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, named)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading PodUnavailableBudget %s/%s: %w", pod.Namespace, name, err)
			}
		}
		if !has(of, named) && b.IsFor(named, pod) { // meanwhile the cache may have received the budget
			of = append(of, named)
		}
	}
	return of, nil
}

// mostListed is the largest number of budgets that a request may read: a longer list would need too much memory.
const mostListed = 500

// listed returns the budgets that protect a Pod, after a list request for the budgets in the Pod's namespace. If the
// list request fails too, the budgets are unknown. Then evictions, and all requests for Pods whose annotations name a
// budget, are refused and must be retried later. All other requests are admitted, because otherwise no Pod of the
// cluster could be deleted.
func (b *Budgets) listed(ctx context.Context, pod *corev1.Pod, operation disruption.Operation, late error) ([]*v1beta1.PodUnavailableBudget, error) {
	list := &v1beta1.PodUnavailableBudgetList{}
	err := b.live.List(ctx, list, client.InNamespace(pod.Namespace), client.Limit(mostListed))
	if err == nil && list.Continue != "" {
		err = fmt.Errorf("there are more than %d", mostListed)
	}
	if err != nil {
		if nameIn(pod) != "" || operation == disruption.Evict {
			return nil, fmt.Errorf("listing the PodUnavailableBudgets of namespace %s: %w (%w)", pod.Namespace, err, late)
		}
		logr.FromContextOrDiscard(ctx).Error(err, "A Pod without a budget of its own is let go although budgets cannot be read", "namespace", pod.Namespace, "pod", pod.Name, "operation", operation)
		return nil, nil
	}
	chain, known := b.Above(pod)
	return b.among(pointers(list.Items), func(name string) *v1beta1.PodUnavailableBudget {
		for i := range list.Items {
			if list.Items[i].Name == name {
				return &list.Items[i]
			}
		}
		return nil
	}, pod, chain, known), nil
}

func pointers(items []v1beta1.PodUnavailableBudget) iter.Seq[*v1beta1.PodUnavailableBudget] {
	return func(yield func(*v1beta1.PodUnavailableBudget) bool) {
		for i := range items {
			if !yield(&items[i]) {
				return
			}
		}
	}
}
