package kinds

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/controllers/podunavailablebudget"
)

func podUnavailableBudget() Kind {
	workers := 3
	return Kind{
		Kind: v1beta1.GroupVersion.WithKind("PodUnavailableBudget"), Resource: "podunavailablebudgets", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  podunavailablebudget.ControllerName, Workers: &workers, Metrics: kruise.NewOwnMetrics,
		Gates:     []apps.Gate{apps.GatePodUnavailableBudgetDelete, apps.GatePodUnavailableBudgetUpdate},
		Setup:     podunavailablebudget.Setup,
		Admission: func(options admission.Options) admission.Endpoint { return admission.PodUnavailableBudget(options) },
	}
}
