package podunavailablebudget

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers, shares := 3, newShares()
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("PodUnavailableBudget"), Resource: "podunavailablebudgets", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: metrics.Work{}.Metrics,
		Gates: []apps.Gate{apps.GatePodUnavailableBudgetDelete, apps.GatePodUnavailableBudgetUpdate},
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, options Options) error {
			return setup(ctx, mgr, c, options, shares)
		},
		PodFields: podFields,
		Guard: func(ctx context.Context, mgr ctrl.Manager, in kind.PodInputs) (kind.Guard, error) {
			asked, err := newBudgets(ctx, mgr, mgr.GetClient(), in.Gates, in.Clock, shares)
			if err != nil {
				return nil, err
			}
			asked.Current, asked.Events = in.Current, kruise.Manager(mgr).GetEventRecorderFor("podunavailablebudget-webhook")
			return asked, nil
		},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch"}, Status: true,
			Why: "The status counts Pods, and names the Pods let go by the webhooks.",
			More: []kind.Right{
				{
					Group: "apps", Resources: []string{"deployments", "replicasets", "daemonsets"}, Verbs: []string{"list", "watch"},
					Why: "The wanted number of Pods, and the owners of Pods. Metadata and replicas are kept in memory.",
				},
				{Group: "*", Resources: []string{"*/scale"}, Verbs: []string{"get"}, Why: "The wanted number of Pods of further workloads named by a budget."},
			},
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
