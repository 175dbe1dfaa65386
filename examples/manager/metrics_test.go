package manager_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

func TestCertificateMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	observer, err := manager.NewCertificateMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	object := func(name string) reason.Object {
		return reason.Object{Kind: "MutatingWebhookConfiguration", Name: name}
	}
	differs := reason.Reason{Code: webhookcert.BundleDiffers}
	observer.Injected(object("reset"), reason.Reason{})
	observer.Injected(object("reset"), differs)
	observer.Injected(object("repaired"), differs)
	observer.Injected(object("repaired"), reason.Reason{})
	observer.Wrote(object("repaired"), differs)
	observer.Failed(reason.Object{Kind: "Directory", Name: "/certs"}, errors.New("read-only"))

	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	if diff := cmp.Diff(map[string]float64{
		"webhook_configuration_lacks_bundle MutatingWebhookConfiguration reset":         1,
		"webhook_configuration_lacks_bundle MutatingWebhookConfiguration repaired":      0,
		"webhook_certificate_writes_total MutatingWebhookConfiguration CABundleDiffers": 1,
		"webhook_certificate_failures_total Directory":                                  1,
	}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
