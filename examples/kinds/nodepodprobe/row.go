package nodepodprobe

import (
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row returns the description of the kind for the code that all kinds share. As in OpenKruise, the kind has no
// webhook: the controller writes the spec, and an admission policy allows each agent to write only the status for its
// own Node.
func Row() kind.Row {
	workers := 3
	return kind.Row{
		Kind: v1alpha1.GroupVersion.WithKind("NodePodProbe"), Resource: "nodepodprobes", ClusterScoped: true,
		Reach:       "runs commands in Pods of every namespace",
		AddToScheme: v1alpha1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: metrics.Work{Things: "marks", Label: "action", Help: "What was done for Pods: written, marks; restarted, containers."}.Metrics,
		Gates:      []apps.Gate{apps.GatePodProbeMarker},
		Setup:      Setup,
		PodFields:  podFields,
		PodMutator: newMutator,
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create", "patch", "delete"},
			Why:     "Each Node with an agent has a list of probes, which goes with the Node.",
			More: []kind.Right{{
				Group: apps.Group, Resources: []string{"containerrecreaterequests"}, Verbs: []string{"create"},
				Why: "Containers that fail liveness probes are restarted (gate EnhancedLivenessProbe).",
			}},
		},
	}
}
