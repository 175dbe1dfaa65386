package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// NewCertificateMetrics returns the observer for counting certificates.
func NewCertificateMetrics(registry prometheus.Registerer) (rotator.Observer, error) {
	return newCertificateMetrics(registry)
}

// AfterServing returns a lock for leader election that a manager can acquire only after its webhooks serve.
func AfterServing(lock resourcelock.Interface, serving func(context.Context) error, every time.Duration) resourcelock.Interface {
	return afterServing(lock, serving, every)
}

// ScrapersFilter returns the filter that asks the API server whether the caller may read metrics.
func ScrapersFilter(config *rest.Config, c *http.Client) (metricsserver.Filter, error) {
	return scrapersFilter(config, c)
}

// ServeReviews serves webhook handlers as the manager does.
func ServeReviews(ctx context.Context, host string, port int, configure func(*tls.Config), closed func(), handlers map[string]http.Handler) error {
	server := newBoundedServer(host, port, MaxConnections, configure, closed)
	for path, handler := range handlers {
		server.Register(path, handler)
	}
	return server.Start(ctx)
}

// IsInstalled reports whether the API server serves a kind.
func IsInstalled(mapper meta.RESTMapper, kind schema.GroupVersionKind) (bool, error) {
	return isInstalled(mapper, kind)
}

// MaxConnections is the maximum of open connections.
const MaxConnections = 300

// Cached returns the transforms of the manager's caches for the kinds of the rows.
func Cached(rows []kind.Row) map[client.Object]cache.ByObject {
	return cached(apps.DefaultGates(), rows, kinds.Loops())
}

// CachedOfOneNamespace returns the transforms of the caches of a manager that is restricted to one namespace.
func CachedOfOneNamespace(scheme *runtime.Scheme, rows []kind.Row) (map[client.Object]cache.ByObject, error) {
	byObject := Cached(rows)
	return byObject, everywhere(scheme, byObject)
}

// RegisterMetrics registers the manager's own metrics, with webhooks and the controllers of all kinds.
func RegisterMetrics(registry prometheus.Registerer) error {
	_, certificates := newCertificateMetrics(registry)
	_, reviews := newReviewMetrics(registry)
	_, refusals := newRefusals(registry, logr.Discard())
	_, watches := newWatchMetric(registry, nil)
	errs := []error{certificates, reviews, refusals, watches, registry.Register(newLeaderMetric()), registry.Register(newCacheMetric())}
	for _, k := range kinds.All() {
		if k.Setup == nil {
			continue
		}
		_, err := k.RegisterMetrics(registry)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CountWatchErrors returns the handler for failed lists and watches.
func CountWatchErrors(registry prometheus.Registerer) (toolscache.WatchErrorHandlerWithContext, error) {
	return countWatchErrors(registry, newLists(logr.Discard(), clock.RealClock{}))
}

// NewRefusals returns the object that reports refused deletions in metrics and in a log file.
func NewRefusals(registry prometheus.Registerer, directory string, log logr.Logger) (interface{ Refused(admission.Refusal) }, error) {
	r, err := newRefusals(registry, log)
	if err != nil || directory == "" {
		return r, err
	}
	return r, r.openIn(directory)
}

// Lists exports the type lists.
type Lists struct{ *lists }

// NewLists returns a Lists.
func NewLists(log logr.Logger, c clock.PassiveClock) Lists { return Lists{newLists(log, c)} }

// Note calls note.
func (l Lists) Note(kind string, err error) { l.note(kind, err) }

// Ready calls ready.
func (l Lists) Ready() error { return l.ready() }
