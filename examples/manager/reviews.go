package manager

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// reviewMetrics counts the webhook requests (reviews) that the webhooks could not answer as intended.
type reviewMetrics struct {
	templates prometheus.Counter
	paths     *prometheus.CounterVec
	statuses  *prometheus.CounterVec
	closed    prometheus.Counter
}

func newReviewMetrics(registry prometheus.Registerer) (*reviewMetrics, error) {
	m := &reviewMetrics{
		templates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kruise_webhook_templates_unchecked_total",
			Help: "Pod templates that were admitted although the API server could not be asked about them.",
		}),
		paths: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_webhook_unknown_path_total",
			Help: "Reviews that were allowed without a look, by the path that a webhook configuration of another manager names.",
		}, []string{"path"}),
		statuses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_webhook_reviews_cut_off_total",
			Help: "Reviews that nobody looked at, by status: 408 arrived too slowly, 411 and 413 without a length or too large, 503 too many at once.",
		}, []string{"code"}),
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kruise_webhook_connections_closed_total",
			Help: "Connections to the webhooks that were closed because too many were open, of the address that had most of them.",
		}),
	}
	for _, c := range []prometheus.Collector{m.templates, m.paths, m.statuses, m.closed} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of reviews: %w", err)
		}
	}
	for _, status := range []int{http.StatusRequestTimeout, http.StatusLengthRequired, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable} {
		m.statuses.WithLabelValues(strconv.Itoa(status)) // an alert needs the series from the start of the process
	}
	return m, nil
}

func (m *reviewMetrics) templateUnchecked(error) { m.templates.Inc() }

// unknownPath counts a review that was sent to a path without a handler. The caller limits the number of paths.
func (m *reviewMetrics) unknownPath(path string) { m.paths.WithLabelValues(path).Inc() }

func (m *reviewMetrics) cutOff(status int) { m.statuses.WithLabelValues(strconv.Itoa(status)).Inc() }

func (m *reviewMetrics) connectionClosed() { m.closed.Inc() }
