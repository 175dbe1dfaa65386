package chaos

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// processManager is the manager.Manager of a process. A manager's Start, webhooks and other network services are
// missing: calling them panics.
type processManager struct {
	manager.Manager

	process *Process
	scheme  *runtime.Scheme
	client  *faultapi.Client
}

func newManager(p *Process, server *faultapi.Server, scheme *runtime.Scheme) *processManager {
	p.live = server.Client(p, nil)
	return &processManager{process: p, scheme: scheme, client: server.Client(p, p.Cache)}
}

// Add stores a runnable for the process. A controller begins a reconcile only when the schedule chooses so.
func (m *processManager) Add(r manager.Runnable) error {
	if c, ok := r.(controller.Controller); ok {
		if err := hold(c, m.process); err != nil {
			return err
		}
	}
	m.process.runnables = append(m.process.runnables, r)
	return nil
}

// hold makes the reconciler of a controller wait for the schedule. controller-runtime has no public function that
// replaces the reconciler of an existing controller, but the controller's fields are exported.
func hold(c controller.Controller, p *Process) error {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return fmt.Errorf("a controller of type %T cannot be scheduled", c)
	}
	name, do := v.FieldByName("Name"), v.FieldByName("Do")
	if !name.IsValid() || !do.IsValid() || !do.CanSet() {
		return fmt.Errorf("a controller of type %T has no fields Name and Do; is this another version of controller-runtime?", c)
	}
	inner, ok := reflect.TypeAssert[reconcile.Reconciler](do)
	if !ok {
		return fmt.Errorf("controller %s has requests of its own type, which cannot be scheduled", name)
	}
	do.Set(reflect.ValueOf(gated{inner, name.String(), p}))
	return nil
}

func (m *processManager) GetClient() client.Client             { return m.client }
func (m *processManager) GetAPIReader() client.Reader          { return m.process.live }
func (m *processManager) GetCache() cache.Cache                { return m.process.Cache }
func (m *processManager) GetFieldIndexer() client.FieldIndexer { return m.process.Cache }
func (m *processManager) GetScheme() *runtime.Scheme           { return m.scheme }
func (m *processManager) GetRESTMapper() meta.RESTMapper       { return m.process.live.RESTMapper() }
func (m *processManager) GetLogger() logr.Logger               { return logr.Discard() }
func (m *processManager) Elected() <-chan struct{}             { return m.process.elected }

func (m *processManager) GetEventRecorder(string) events.EventRecorder { return &events.FakeRecorder{} }

func (m *processManager) GetEventRecorderFor(string) record.EventRecorder {
	return &record.FakeRecorder{}
}

func (m *processManager) AddHealthzCheck(string, healthz.Checker) error           { return nil }
func (m *processManager) AddReadyzCheck(string, healthz.Checker) error            { return nil }
func (m *processManager) AddMetricsServerExtraHandler(string, http.Handler) error { return nil }

// GetControllerOptions allows the next process to use the same controller names, and keeps requests in order.
func (m *processManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false), Logger: logr.Discard()}
}
