package kinds

import (
	"context"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
)

func broadcastJob() Kind {
	workers, byScheduler := 3, true
	return Kind{
		Kind: v1beta1.GroupVersion.WithKind("BroadcastJob"), Resource: "broadcastjobs", Converted: true,
		AddToScheme: v1beta1.AddToScheme,
		Controller:  broadcastjob.ControllerName, Workers: &workers, Metrics: kruise.NewJobMetrics,
		Flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&byScheduler, "assign-bcj-pods-by-scheduler", true,
				"leave it to the scheduler to bind Pods of BroadcastJobs to their Nodes; without it they are bound when they are created")
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, shared kruise.Options) error {
			return broadcastjob.Setup(ctx, mgr, c, broadcastjob.Options{Options: shared, BindPods: !byScheduler})
		},
		Admission: func(options admission.Options) admission.Endpoint { return admission.BroadcastJob(options) },
	}
}
