// Package faultmanager answers "how do I set up the unchanged controllers of a program on a simulated API server?".
//
// [Manager] is a controller-runtime manager whose clients and cache belong to a faultapi.Server. The function that
// adds controllers to a manager in the real program also adds them to this manager. The manager starts no runnable:
// each added runnable is passed to [Parts.Add]. [WrapReconciler] and [SetQueue] let the caller decide when a
// reconcile begins.
//
// The package imports neither testing nor testing/synctest, so programs can use it.
package faultmanager

import (
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// Parts are the values that the methods of a Manager return. All fields are required.
type Parts struct {
	Scheme *runtime.Scheme
	// Cache is the manager's cache.
	Cache *faultapi.Cache
	// Client reads from Cache. Live reads from the server.
	Client client.Client
	Live   *faultapi.Client
	// Elected is closed once the process leads.
	Elected <-chan struct{}
	// Add receives each added runnable. Manager.Add returns the error of Add.
	Add func(manager.Runnable) error
}

// Manager is a manager.Manager without processes and network services. Start, GetWebhookServer, GetConfig and
// GetHTTPClient are not implemented and panic.
type Manager struct {
	manager.Manager

	parts Parts
}

// New returns a manager of the parts.
func New(parts Parts) *Manager { return &Manager{parts: parts} }

// Add passes a runnable to Parts.Add.
func (m *Manager) Add(r manager.Runnable) error { return m.parts.Add(r) }

// GetClient returns Parts.Client.
func (m *Manager) GetClient() client.Client { return m.parts.Client }

// GetAPIReader returns Parts.Live.
func (m *Manager) GetAPIReader() client.Reader { return m.parts.Live }

// GetCache returns Parts.Cache.
func (m *Manager) GetCache() cache.Cache { return m.parts.Cache }

// GetFieldIndexer returns Parts.Cache.
func (m *Manager) GetFieldIndexer() client.FieldIndexer { return m.parts.Cache }

// GetScheme returns Parts.Scheme.
func (m *Manager) GetScheme() *runtime.Scheme { return m.parts.Scheme }

// GetRESTMapper maps the server's resources.
func (m *Manager) GetRESTMapper() meta.RESTMapper { return m.parts.Live.RESTMapper() }

// GetLogger returns a logger that logs nothing.
func (m *Manager) GetLogger() logr.Logger { return logr.Discard() }

// Elected returns Parts.Elected.
func (m *Manager) Elected() <-chan struct{} { return m.parts.Elected }

// GetEventRecorder returns a recorder that drops all events.
func (m *Manager) GetEventRecorder(string) events.EventRecorder { return &events.FakeRecorder{} }

// GetEventRecorderFor returns a recorder that drops all events.
func (m *Manager) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// AddHealthzCheck does nothing.
func (m *Manager) AddHealthzCheck(string, healthz.Checker) error { return nil }

// AddReadyzCheck does nothing.
func (m *Manager) AddReadyzCheck(string, healthz.Checker) error { return nil }

// AddMetricsServerExtraHandler does nothing.
func (m *Manager) AddMetricsServerExtraHandler(string, http.Handler) error { return nil }

// GetControllerOptions allows another manager to use the same controller names, and keeps requests in order.
func (m *Manager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false), Logger: logr.Discard()}
}
