package podunavailablebudget

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/disruption"
)

// Linked adds the controller to a manager, and returns Budgets of the same process.
func Linked(ctx context.Context, mgr manager.Manager, c client.Client, options Options) (*Budgets, error) {
	shares := newShares()
	if err := setup(ctx, mgr, c, options, shares); err != nil {
		return nil, err
	}
	return newBudgets(ctx, mgr, c, options.Gates, options.Clock, shares)
}

// AskGated is like Permit, but returns the whole Answer.
func (b *Budgets) AskGated(ctx context.Context, pod *corev1.Pod, operation disruption.Operation) (Answer, error) {
	return b.ask(ctx, pod, operation, false, permitWaits, true)
}
