package nodejobs

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/completion/noderun"
	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
)

// Run runs the operator until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := setup(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// setup adds the reconcile loop of NodeJobs to the manager, with Nodes as a further source of events.
func setup(ctx context.Context, mgr ctrl.Manager) error {
	cache, err := ownercache.New(ctx, mgr, &NodeJob{}, ownercache.Options{Nodes: true})
	if err != nil {
		return err
	}
	runner, err := noderun.New(cache)
	if err != nil {
		return err
	}
	r := &reconciler{cache, ownercache.NewMemo(cache, fitOf), runner, fanout.New(10)}
	cache.OnGone(r.fanout.Backoff.Forget)
	watch := ownercache.WatchNodes(cache, func(job *NodeJob, node *corev1.Node) completion.Claim {
		if fit := r.fits.Of(job); fit.err == nil && job.Status.Ended == nil {
			return fit.claim(node)
		}
		return completion.Claim{}
	})
	return cache.AddController(mgr, "nodejobs", r, ownercache.ControllerOptions{Watch: watch})
}

// fit contains a NodeJob's requirements for Nodes, for new Pods and for running Pods, or the error in its spec.
type fit struct {
	*nodefit.Requirements

	stays *nodefit.Requirements
	err   error
}

func fitOf(job *NodeJob) (f fit) {
	if problems := decode.Reasons(job.Spec.undecodable); problems != nil {
		return fit{err: problems}
	}
	spec := &job.Spec.Template.Spec
	if spec.RestartPolicy != corev1.RestartPolicyNever {
		return fit{err: errors.New("spec.template.spec.restartPolicy: must be Never, or a Pod never ends")}
	}
	if f.Requirements, f.err = nodefit.New(spec); f.err == nil {
		f.stays, f.err = nodefit.New(spec, nodefit.HealthTolerations()...)
	}
	return f
}

// claim returns whether a job may create a Pod on a Node, and whether a running Pod may stay. A running Pod stays if
// the Node is cordoned, or is not ready for a short time.
func (f fit) claim(node *corev1.Node) completion.Claim {
	return completion.Claim{Fits: f.Fits(node).Run, Keeps: f.stays.Fits(node).Continue}
}
