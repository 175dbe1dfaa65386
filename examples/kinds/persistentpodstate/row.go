package persistentpodstate

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("PersistentPodState"), Resource: "persistentpodstates", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: metrics.Work{Things: "records", Label: "action", Help: "Records of Pods, by what was done to them: written, dropped."}.Metrics,
		Setup:     Setup,
		PodFields: podFields,
		PodMutator: func(ctx context.Context, mgr ctrl.Manager, in kind.PodInputs) (podwebhook.Mutator, error) {
			return newStep(ctx, mgr, in.Namespace, in.Current, kruise.Manager(mgr).GetEventRecorderFor(ControllerName))
		},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create", "patch", "delete"}, Status: true,
			Why: "Some are generated, and deleted when no workload asks for them any more.",
			More: []kind.Right{
				{
					Group: "apps", Resources: []string{"statefulsets"}, Verbs: []string{"get", "list", "watch"},
					Why: "Owners of Pods with records. Further kinds, listed in kruise-configuration, have to be granted apart: get, list and watch.",
				},
			},
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
