package kinds

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/controllers/sidecarset"
)

// sidecarSet has no sample: its Pods are those of others.
func sidecarSet() Kind {
	workers := 3
	return Kind{
		Kind: v1beta1.GroupVersion.WithKind("SidecarSet"), Resource: "sidecarsets", Converted: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  sidecarset.ControllerName, Workers: &workers,
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, shared kruise.Options) error {
			return sidecarset.Setup(ctx, mgr, c, shared)
		},
		Admission: func(options admission.Options) admission.Endpoint { return admission.SidecarSet(options) },
	}
}
