package kinds

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/controllers/resourcedistribution"
)

func resourceDistribution() Kind {
	workers := 3
	return Kind{
		Kind: v1beta1.GroupVersion.WithKind("ResourceDistribution"), Resource: "resourcedistributions", ClusterScoped: true, Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  resourcedistribution.ControllerName, Workers: &workers, Gates: []apps.Gate{apps.GateResourceDistribution}, Metrics: kruise.NewCopyMetrics,
		Setup:     resourcedistribution.Setup,
		Admission: func(options admission.Options) admission.Endpoint { return admission.ResourceDistribution(options) },
	}
}
