package kinds

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/controllers/persistentpodstate"
)

func persistentPodState() Kind {
	workers := 3
	return Kind{
		Kind: v1beta1.GroupVersion.WithKind("PersistentPodState"), Resource: "persistentpodstates", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  persistentpodstate.ControllerName, Workers: &workers, Metrics: kruise.NewRecordMetrics,
		Setup:     persistentpodstate.Setup,
		Admission: func(options admission.Options) admission.Endpoint { return admission.PersistentPodState(options) },
	}
}
