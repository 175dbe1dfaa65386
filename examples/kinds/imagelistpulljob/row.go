package imagelistpulljob

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row returns the description of the kind for the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("ImageListPullJob"), Resource: "imagelistpulljobs", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Metrics: metrics.Work{Things: "jobs", Label: "action", Help: "ImagePullJobs, by what was done to them: created, deleted."}.Metrics,
		Gates:   []apps.Gate{apps.GateImagePullJob},
		Setup:   Setup,
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create", "delete"}, Status: true, Owns: true,
			Why: "AdvancedCronJobs create some. Finished jobs are deleted when their time is over.",
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
