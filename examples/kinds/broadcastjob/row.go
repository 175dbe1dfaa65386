package broadcastjob

import (
	"context"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers, byScheduler := 3, true
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("BroadcastJob"), Resource: "broadcastjobs", Converted: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers, Metrics: metrics.Work{Things: "pods", Label: "action", Help: "Pods of jobs, by what was done to them: created, deleted."}.Metrics,
		Flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&byScheduler, "assign-bcj-pods-by-scheduler", true,
				"leave it to the scheduler to bind Pods of BroadcastJobs to their Nodes; without it they are bound when they are created")
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, shared kruise.Options) error {
			return Setup(ctx, mgr, c, Options{Options: shared, BindPods: !byScheduler})
		},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create", "delete"}, Status: true, Owns: true,
			Why: "Finished jobs are deleted when their spec says so. AdvancedCronJobs start some.",
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}
