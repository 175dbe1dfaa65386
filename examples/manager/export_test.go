package manager

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/workloadkit/workloadkit/webhookcert/apply"
)

// NewCertificateMetrics returns what the keeper of the certificates tells.
func NewCertificateMetrics(registry prometheus.Registerer) (apply.Observer, error) {
	return newCertificateMetrics(registry)
}

// AfterServing returns the lock of a manager whose webhooks have to serve before it leads.
func AfterServing(lock resourcelock.Interface, serving func(context.Context) error, every time.Duration) resourcelock.Interface {
	return afterServing(lock, serving, every)
}
