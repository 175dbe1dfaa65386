package chaos

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/testing/faultapi"
	"github.com/workloadkit/workloadkit/testing/faultapi/faultmanager"
)

// newManager returns the manager of a process. The schedule chooses when a controller of the manager begins a
// reconcile.
func newManager(p *Process, server *faultapi.Server, scheme *runtime.Scheme) *faultmanager.Manager {
	p.live = server.Client(p, nil)
	return faultmanager.New(faultmanager.Parts{
		Scheme: scheme, Cache: p.Cache, Client: server.Client(p, p.Cache), Live: p.live, Elected: p.elected,
		Add: func(r manager.Runnable) error {
			if c, ok := r.(controller.Controller); ok {
				if err := hold(c, p); err != nil {
					return err
				}
			}
			p.runnables = append(p.runnables, r)
			return nil
		},
	})
}

// hold makes the reconciler of a controller wait for the schedule.
func hold(c controller.Controller, p *Process) error {
	return faultmanager.WrapReconciler(c, func(name string, inner reconcile.Reconciler) reconcile.Reconciler {
		return gated{inner, name, p}
	})
}
