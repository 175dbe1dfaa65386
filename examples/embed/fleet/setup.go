package fleet

import (
	"context"
	"errors"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/revision"
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
	if err := Setup(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// Setup adds both reconcile loops to the manager: the loop of Fleets, and the loop of their Pods, which finishes
// updates that have begun.
func Setup(ctx context.Context, mgr ctrl.Manager) error {
	_, err := setup(ctx, mgr)
	return err
}

func setup(ctx context.Context, mgr ctrl.Manager) (*reconciler, error) {
	r, err := newReconciler(ctx, mgr, mgr.GetEventRecorder("fleet"), clock.RealClock{})
	if err != nil {
		return nil, err
	}
	return r, r.AddTo(mgr, "fleet", r, ownercache.ControllerOptions{}, ownercache.ControllerOptions{Workers: 8})
}

// newReconciler makes the parts of the controller and connects them.
func newReconciler(ctx context.Context, mgr ownercache.Manager, recorder events.EventRecorder, now clock.PassiveClock) (*reconciler, error) {
	inPlace, err := updater()
	if err != nil {
		return nil, err
	}
	parts, err := executor.NewParts(ctx, mgr, &Fleet{}, executor.Config[*Fleet]{
		Control:   podcontrol.Config{InPlace: inPlace, RevisionLabel: revisionLabel},
		Revisions: revision.Keys{HashLabel: revisionLabel},
		Cache:     ownercache.Options{Clock: now},
		Options: executor.Options[*Fleet]{
			Rules: func(f *Fleet) podcontrol.Rules {
				grace := time.Duration(max(f.Spec.GracePeriodSeconds, 0)) * time.Second
				return podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible, GracePeriod: grace}
			},
			Observe: executor.Record[*Fleet](recorder),
		},
	})
	return &reconciler{parts}, err
}

// updater returns the Updater for in-place updates, with the operator's own names.
func updater() (*inplaceupdate.Updater, error) {
	return inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: group + "/state", GraceAnnotation: group + "/grace", Gate: gate, Reserved: []string{revisionLabel},
	}})
}
