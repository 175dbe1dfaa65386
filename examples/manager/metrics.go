package manager

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

// certificateMetrics are the metrics about the rotation of certificates.
type certificateMetrics struct {
	expiry   *prometheus.GaugeVec
	writes   *prometheus.CounterVec
	failures *prometheus.CounterVec
	lacking  *prometheus.GaugeVec
}

func newCertificateMetrics(registry prometheus.Registerer) (*certificateMetrics, error) {
	m := &certificateMetrics{
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "webhook_certificate_expiration_timestamp_seconds",
			Help: "When a certificate expires, in seconds since 1970, by what it is for: leaf, ca, next-ca, old-ca.",
		}, []string{"role"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "webhook_certificate_writes_total", Help: "Writes to the Secret and the objects that hold the CA bundle, by kind and reason.",
		}, []string{"kind", "reason"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "webhook_certificate_failures_total", Help: "Requests about certificates, and writes of files, that have failed, by kind of the object.",
		}, []string{"kind"}),
		lacking: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "webhook_configuration_lacks_bundle",
			Help: "1 while an object lacks the CA bundle or the address of the webhooks, else 0, by its kind and name.",
		}, []string{"kind", "name"}),
	}
	for _, c := range []prometheus.Collector{m.expiry, m.writes, m.failures, m.lacking} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of webhook certificates: %w", err)
		}
	}
	return m, nil
}

// Serving records the expiry times of the certificates.
func (m *certificateMetrics) Serving(material *webhookcert.Material) {
	m.expiry.Reset()
	for _, fact := range material.Facts {
		m.expiry.WithLabelValues(fact.Role).Set(float64(fact.NotAfter.Unix()))
	}
}

// Wrote counts a write by the rotator.
func (m *certificateMetrics) Wrote(object reason.Object, why reason.Reason) {
	m.writes.WithLabelValues(object.Kind, string(why.Code)).Inc()
}

// Injected records in a metric whether a webhook configuration or CRD lacks the CA bundle.
func (m *certificateMetrics) Injected(object reason.Object, lacks reason.Reason) {
	value := 0.0
	if lacks.Code != "" {
		value = 1
	}
	m.lacking.WithLabelValues(object.Kind, object.Name).Set(value)
}

// Waiting does nothing, because the rotator logs each wait.
func (m *certificateMetrics) Waiting(reason.Object, reason.Reason) {}

// Failed counts a failure of the rotator.
func (m *certificateMetrics) Failed(object reason.Object, _ error) {
	m.failures.WithLabelValues(object.Kind).Inc()
}
