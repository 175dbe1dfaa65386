package podunavailablebudget

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// endpoint returns the admission rules that default and validate PodUnavailableBudgets. options.Reader finds other
// budgets in the namespace that protect the same Pods. If there is no Reader, this check is skipped. While both feature
// gates are off, no budget can be created.
func endpoint(options admission.Options) *admission.Rules[v1beta1.PodUnavailableBudget, v1alpha1.PodUnavailableBudget] {
	return &admission.Rules[v1beta1.PodUnavailableBudget, v1alpha1.PodUnavailableBudget]{
		GroupKind:  schema.GroupKind{Group: policy.Group, Kind: "PodUnavailableBudget"},
		Resource:   "podunavailablebudgets",
		Name:       "podunavailablebudget",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.PodUnavailableBudget) []decode.Problem { return obj.Spec.Undecodable },
		Closed:      admission.Gated(options, "nobody would keep it", apps.GatePodUnavailableBudgetDelete, apps.GatePodUnavailableBudgetUpdate),
		ValidateCreate: func(ctx context.Context, obj *v1beta1.PodUnavailableBudget) (field.ErrorList, error) {
			return validateWithOthers(ctx, options.Reader, obj)
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.PodUnavailableBudget) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
	}
}

// budgetsPerPage is the largest number of budgets in memory at a time.
const budgetsPerPage = 100

// validateWithOthers compares a new budget with all budgets of its namespace, page by page.
func validateWithOthers(ctx context.Context, reader client.Reader, obj *v1beta1.PodUnavailableBudget,
) (field.ErrorList, error) {
	own, errs := validateCreate(obj)
	if reader == nil || len(errs) > 0 {
		return errs, nil
	}
	for list := (&v1beta1.PodUnavailableBudgetList{}); ; {
		page := []client.ListOption{
			client.InNamespace(obj.Namespace), client.Limit(budgetsPerPage), client.Continue(list.Continue),
		}
		list = &v1beta1.PodUnavailableBudgetList{}
		if err := reader.List(ctx, list, page...); err != nil {
			return nil, fmt.Errorf("listing the PodUnavailableBudgets of namespace %s: %w", obj.Namespace, err)
		}
		if errs = conflicts(obj, own, list.Items); len(errs) > 0 || list.Continue == "" {
			return errs, nil
		}
	}
}
