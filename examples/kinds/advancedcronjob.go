package kinds

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
)

func advancedCronJob() Kind {
	workers := 3
	return Kind{
		Kind: v1beta1.GroupVersion.WithKind("AdvancedCronJob"), Resource: "advancedcronjobs", Converted: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  advancedcronjob.ControllerName, Workers: &workers, Metrics: kruise.NewScheduleMetrics,
		Setup:     advancedcronjob.Setup,
		Admission: func(options admission.Options) admission.Endpoint { return admission.AdvancedCronJob(options) },
	}
}
