package manager_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

// gathered returns the values of the metrics, by the metric's name and the values of its labels.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
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
	return got
}

func TestCertificateMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	observer, err := manager.NewCertificateMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	object := func(name string) reason.Object {
		return reason.Object{Kind: "MutatingWebhookConfiguration", Name: name}
	}
	differs := reason.Reason{Code: webhookcert.CABundleDiffers}
	observer.Injected(object("reset"), reason.Reason{})
	observer.Injected(object("reset"), differs)
	observer.Injected(object("repaired"), differs)
	observer.Injected(object("repaired"), reason.Reason{})
	observer.Wrote(object("repaired"), differs)
	observer.Failed(reason.Object{Kind: "Directory", Name: "/certs"}, errors.New("read-only"))

	got := gathered(t, registry)
	if diff := cmp.Diff(map[string]float64{
		"webhook_configuration_lacks_bundle MutatingWebhookConfiguration reset":         1,
		"webhook_configuration_lacks_bundle MutatingWebhookConfiguration repaired":      0,
		"webhook_certificate_writes_total MutatingWebhookConfiguration CABundleDiffers": 1,
		"webhook_certificate_failures_total Directory":                                  1,
	}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// described is a Registerer that records the names of the metrics.
type described struct {
	prometheus.Registerer

	names []string
}

func (d *described) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 10)
	c.Describe(descriptions)
	close(descriptions)
	for description := range descriptions {
		_, rest, _ := strings.Cut(description.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		d.names = append(d.names, name)
	}
	return nil
}

// TestMetricsAreDocumented: the README's table lists exactly the metrics.
func TestMetricsAreDocumented(t *testing.T) {
	registered := &described{}
	if err := manager.RegisterMetrics(registered); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, match := range regexp.MustCompile("`([a-z_]+)[{`]").FindAllStringSubmatch(cells[1], -1) {
			documented = append(documented, match[1])
		}
	}
	slices.Sort(registered.names)
	slices.Sort(documented)
	if diff := cmp.Diff(registered.names, documented); diff != "" {
		t.Errorf("metrics (-registered +documented):\n%s", diff)
	}
}
