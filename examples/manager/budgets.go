package manager

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/budgets"
)

// keepsBudgets reports whether PodUnavailableBudgets are asked about anything.
func keepsBudgets(gates map[apps.Gate]bool) bool {
	return budgets.IsOn(gates, disruption.Delete) || budgets.IsOn(gates, disruption.Update)
}

// newBudgets returns the budgets for the webhook and for controllers, or nil if the gates turn budgets off.
func newBudgets(ctx context.Context, mgr ctrl.Manager, gates map[apps.Gate]bool, served *served) (*budgets.Budgets, error) {
	if !keepsBudgets(gates) {
		return nil, nil //nolint:nilnil // Nobody is asked.
	}
	asked, err := budgets.New(ctx, mgr, mgr.GetClient(), gates, nil)
	if err != nil {
		return nil, fmt.Errorf("budgets: %w", err)
	}
	asked.Current = served.await(v1beta1.GroupVersion.WithKind("PodUnavailableBudget"))
	return asked, nil
}
