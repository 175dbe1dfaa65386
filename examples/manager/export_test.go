package manager

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/webhookcert/apply"
)

// NewCertificateMetrics returns what the keeper of the certificates tells.
func NewCertificateMetrics(registry prometheus.Registerer) (apply.Observer, error) {
	return newCertificateMetrics(registry)
}
