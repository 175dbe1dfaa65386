package kinds

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// containerRecreateRequest has no controller here: node agents carry the requests out.
func containerRecreateRequest() Kind {
	return Kind{
		Kind: v1beta1.GroupVersion.WithKind("ContainerRecreateRequest"), Resource: "containerrecreaterequests", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Admission:   func(options admission.Options) admission.Endpoint { return admission.ContainerRecreateRequest(options) },
	}
}
