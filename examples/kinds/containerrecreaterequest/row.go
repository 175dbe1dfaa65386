package containerrecreaterequest

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
)

// Row is the line of the kind in the table of kinds. The kind has no controller here: node agents carry the requests
// out.
func Row() kind.Row {
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("ContainerRecreateRequest"), Resource: "containerrecreaterequests", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create"}, Why: "The end of sidecars of Pods that run to completion (gate SidecarTerminator). A request whose answer was lost is looked up.",
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
