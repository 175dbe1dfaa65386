package ephemeraljob

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row describes the kind to the code shared by all kinds.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1alpha1.GroupVersion.WithKind("EphemeralJob"), Resource: "ephemeraljobs",
		AddToScheme: v1alpha1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: metrics.Work{Things: "pods", Label: "action", Help: "Pods of jobs, by what was done to them: added, when they got the containers."}.Metrics,
		Setup:     Setup,
		PodFields: podFields,
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "patch", "delete"}, Status: true,
			Why: "Jobs get a finalizer. Finished jobs are deleted when their time is over.",
			More: []kind.Right{{
				Resources: []string{"pods/ephemeralcontainers"}, Verbs: []string{"patch"}, Why: "EphemeralJobs add their containers.",
			}},
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
