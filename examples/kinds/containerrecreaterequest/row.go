package containerrecreaterequest

import (
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("ContainerRecreateRequest"), Resource: "containerrecreaterequests", Short: "crr", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Metrics: metrics.Work{Things: "early_ends", Label: "reason", Help: "Requests completed by the controller, and not by a node agent, by why: PodGone, AgentSilent, DeadlineExceeded, or what is wrong with the spec."}.Metrics,
		Gates:   []apps.Gate{apps.GateKruiseDaemon},
		Setup:   Setup,
		Cached:  []kind.Cached{{Object: &v1beta1.ContainerRecreateRequest{}, Keep: keepRequest}},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create", "patch", "delete"}, Status: true,
			Why: "Some end the sidecars of Pods that run to completion (gate SidecarTerminator). Labels and finalizers go at the end, and requests are deleted when their spec says so.",
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
