package manager

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// newPathMetrics returns what counts reviews of webhooks that are not served here. Whoever calls it bounds the number of paths.
func newPathMetrics(registry prometheus.Registerer) (observe func(path string), err error) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kruise_webhook_unknown_path_total",
		Help: "Reviews that were allowed without a look, by the path that a webhook configuration of another manager names.",
	}, []string{"path"})
	if err := registry.Register(counter); err != nil {
		return nil, fmt.Errorf("metric of unknown webhook paths: %w", err)
	}
	return func(path string) { counter.WithLabelValues(path).Inc() }, nil
}
