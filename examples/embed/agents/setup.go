package agents

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout/pernode"
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
	if _, err := setup(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// setup adds both reconcile loops to the manager. The loop of Agents has Nodes as a further source of events; the loop
// of their Pods finishes updates that have begun.
func setup(ctx context.Context, mgr ctrl.Manager) (*reconciler, error) {
	r, err := newReconciler(ctx, mgr, mgr.GetEventRecorder("agents"), clock.RealClock{})
	if err != nil {
		return nil, err
	}
	watch := ownercache.WatchNodes(r.Cache, r.claim)
	return r, r.AddTo(mgr, "agents", r, ownercache.ControllerOptions{Watch: watch}, ownercache.ControllerOptions{Workers: 8})
}

// newReconciler makes the parts of the controller and connects them.
func newReconciler(ctx context.Context, mgr ownercache.Manager, recorder events.EventRecorder, now clock.PassiveClock) (*reconciler, error) {
	inPlace, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: group + "/state", GraceAnnotation: group + "/grace", Gate: gate, Reserved: []string{revisionLabel},
	}})
	if err != nil {
		return nil, err
	}
	parts, err := executor.NewParts(ctx, mgr, &Agent{}, executor.Config[*Agent]{
		Control:   podcontrol.Config{InPlace: inPlace, RevisionLabel: revisionLabel},
		Revisions: revision.Keys{HashLabel: revisionLabel},
		Cache:     ownercache.Options{Clock: now, Nodes: true},
		Options: executor.Options[*Agent]{
			Rules:   func(*Agent) podcontrol.Rules { return podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible} },
			Observe: executor.Record[*Agent](recorder),
		},
	})
	if err != nil {
		return nil, err
	}
	return &reconciler{parts, ownercache.NewMemo(parts.Cache, fitOf)}, nil
}

// fit contains an Agent's requirements for Nodes, or the error in its spec.
type fit struct {
	*nodefit.Requirements

	err error
}

func fitOf(agent *Agent) (f fit) {
	if problems := decode.Reasons(agent.Spec.undecodable); problems != nil {
		return fit{err: problems}
	}
	spec := &agent.Spec.Template.Spec
	f.Requirements, f.err = nodefit.New(spec, nodefit.DaemonSetTolerations(spec.HostNetwork)...)
	return f
}

// claim returns whether a new Pod of an Agent may run on a Node, and whether a running Pod may stay. The zero value
// means that no Pod may run on the Node, or that the Agent's spec is invalid.
func (r *reconciler) claim(agent *Agent, node *corev1.Node) pernode.Node {
	fit := r.fits.Of(agent)
	if fit.err != nil {
		return pernode.Node{}
	}
	v := fit.Fits(node)
	return pernode.Node{Run: v.Run, Continue: v.Continue}
}
