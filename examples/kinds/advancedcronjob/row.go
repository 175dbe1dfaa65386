package advancedcronjob

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("AdvancedCronJob"), Resource: "advancedcronjobs", Converted: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: runs().Metrics,
		Cached: []kind.Cached{{Object: &batchv1.Job{}, Keep: keepJob}},
		Setup:  Setup,
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch"}, Status: true, Owns: true,
			More: []kind.Right{
				{
					Group: "batch", Resources: []string{"jobs"}, Verbs: []string{"get", "list", "watch", "create", "delete"},
					Why: "Runs of AdvancedCronJobs. Admission judges templates by dry runs of creations. Metadata, start and conditions are kept in memory.",
				},
			},
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
