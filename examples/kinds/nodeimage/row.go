package nodeimage

import (
	"context"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row returns the description of the kind for the code that all kinds share.
func Row() kind.Row {
	workers, delay := 3, defaultDelay
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("NodeImage"), Resource: "nodeimages", ClusterScoped: true, Converted: true, Released: "v1alpha1",
		Reach:       "makes Nodes pull any image, with the credentials of other users' jobs",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Metrics: metrics.Work{Things: "objects", Label: "action", Help: "NodeImages written, by what was done to them: created, updated, deleted."}.Metrics,
		Flags: func(fs *pflag.FlagSet) {
			fs.DurationVar(&delay, "nodeimage-creation-delay", delay, "how long a Node must have been ready before its NodeImage is created")
		},
		Gates: []apps.Gate{apps.GateKruiseDaemon},
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error {
			return Setup(ctx, mgr, c, Options{Options: options, CreationDelay: &delay})
		},
		Cached: []kind.Cached{{Object: &v1beta1.NodeImage{}, Keep: keepNodeImage}},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create", "patch", "delete"},
			Why:     "One for each Node. Jobs write the wanted images into the spec; the status is the agents'.",
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}

// defaultDelay is the default of Options.CreationDelay, as in OpenKruise 1.9.
const defaultDelay = 30 * time.Second
