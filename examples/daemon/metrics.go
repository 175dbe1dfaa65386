package daemon

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/reason"
)

// metrics are the agent's metrics.
type metrics struct {
	restarts *prometheus.CounterVec
	pulls    *prometheus.HistogramVec
}

// newMetrics creates and registers the metrics of the agent. waiting is called at each scrape, and returns the
// reasons why the agent waits.
func newMetrics(registry prometheus.Registerer, waiting func() reason.List) (*metrics, error) {
	m := &metrics{restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kruise_daemon_container_restarts_total", Help: "Containers of requests that are done, by outcome: restarted or failed.",
	}, []string{"outcome"}), pulls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kruise_daemon_image_pull_duration_seconds", Help: "Attempts to pull an image, by outcome: pulled or failed.",
		Buckets: prometheus.ExponentialBuckets(0.5, 2, 12), // up to 17 minutes
	}, []string{"outcome"})}
	if registry == nil {
		return m, nil
	}
	for _, one := range []prometheus.Collector{m.restarts, m.pulls, waits{ask: waiting}} {
		if err := registry.Register(one); err != nil {
			return nil, fmt.Errorf("metrics of the agent: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) restarted(ok bool) {
	outcome := "restarted"
	if !ok {
		outcome = "failed"
	}
	m.restarts.WithLabelValues(outcome).Inc()
}

func (m *metrics) pulled(took time.Duration, err error) {
	outcome := "pulled"
	if err != nil {
		outcome = "failed"
	}
	m.pulls.WithLabelValues(outcome).Observe(took.Seconds())
}

// waits is a metric with a series for each reason for which the agent waits.
type waits struct {
	ask func() reason.List
}

func (w waits) desc() *prometheus.Desc {
	return prometheus.NewDesc("kruise_daemon_waiting", "1 for each thing that the agent waits for, by reason.", []string{"reason"}, nil)
}

// Describe implements prometheus.Collector.
func (w waits) Describe(out chan<- *prometheus.Desc) { out <- w.desc() }

// Collect implements prometheus.Collector.
func (w waits) Collect(out chan<- prometheus.Metric) {
	told := map[reason.Code]bool{}
	for _, why := range w.ask() {
		if !told[why.Code] {
			told[why.Code] = true
			out <- prometheus.MustNewConstMetric(w.desc(), prometheus.GaugeValue, 1, string(why.Code))
		}
	}
}
