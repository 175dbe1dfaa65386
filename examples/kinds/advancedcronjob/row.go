package advancedcronjob

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// Row is the line of the kind in the table of kinds.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("AdvancedCronJob"), Resource: "advancedcronjobs", Converted: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: kruise.NewScheduleMetrics,
		Setup:     Setup,
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
