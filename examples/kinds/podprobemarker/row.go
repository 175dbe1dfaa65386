package podprobemarker

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row returns the description of the kind for the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1alpha1.GroupVersion.WithKind("PodProbeMarker"), Resource: "podprobemarkers",
		AddToScheme: v1alpha1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: metrics.Work{}.Metrics,
		Gates:     []apps.Gate{apps.GatePodProbeMarker},
		Setup:     Setup,
		Rights:    kind.Rights{Objects: []string{"get", "list", "watch", "patch"}, Status: true, Why: "Markers get a finalizer, which goes when nothing of the marker is left on Nodes and Pods."},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
