package manager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/manager"
)

func refusal(kind, namespace, name string) admission.Refusal {
	return admission.Refusal{Event: admission.EventDeletionProtection, Kind: kind, Namespace: namespace, Name: name, User: "jane"}
}

func TestRefusals(t *testing.T) {
	registry, dir := prometheus.NewRegistry(), filepath.Join(t.TempDir(), "made", "here")
	r, err := manager.NewRefusals(registry, dir, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	r.Refused(refusal("Namespace", "", "shop"))
	r.Refused(refusal("CustomResourceDefinition", "", "crates.example.test"))
	r.Refused(refusal("Deployment", "shop", "web"))
	r.Refused(refusal("Deployment", "shop", "web"))
	log, err := os.ReadFile(filepath.Join(dir, "protection.log"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Event":"DeletionProtection","Kind":"Namespace","Namespace":"","Name":"shop","UserAgent":"jane"}
{"Event":"DeletionProtection","Kind":"CustomResourceDefinition","Namespace":"","Name":"crates.example.test","UserAgent":"jane"}
{"Event":"DeletionProtection","Kind":"Deployment","Namespace":"shop","Name":"web","UserAgent":"jane"}
{"Event":"DeletionProtection","Kind":"Deployment","Namespace":"shop","Name":"web","UserAgent":"jane"}
`
	if diff := cmp.Diff(want, string(log)); diff != "" {
		t.Errorf("MG-24 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{
		"namespace_deletion_protection shop jane":               1,
		"crd_deletion_protection crates.example.test jane":      1,
		"workload_deletion_protection Deployment_shop_web jane": 2,
	}, gathered(t, registry)); diff != "" {
		t.Errorf("6.6 metrics (-want +got):\n%s", diff)
	}
}

// TestRefusalsAreBounded: a user who tries to delete many objects fills neither the memory nor the disk.
func TestRefusalsAreBounded(t *testing.T) {
	registry, dir := prometheus.NewRegistry(), t.TempDir()
	r, err := manager.NewRefusals(registry, dir, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 10_000)
	for i := range 40_000 { // more than two files
		r.Refused(refusal("Deployment", fmt.Sprint("shop-", i%20), fmt.Sprint(i, long)))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		if info, err := entry.Info(); err != nil || info.Size() > 16<<20 {
			t.Errorf("%s: %v, %v", entry.Name(), info.Size(), err)
		}
	}
	if diff := cmp.Diff([]string{"protection.log", "protection.log.1"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	series := gathered(t, registry)
	if len(series) != 1001 {
		t.Errorf("%d series, want 1,000 and one for the others", len(series))
	}
	for text := range series {
		if len(text) > 2000 {
			t.Fatalf("a series of %d bytes: %.100s", len(text), text)
		}
	}
}

// TestRefusalSeriesOfANamespace: the refusals of a single namespace do not use up all series of a metric.
func TestRefusalSeriesOfANamespace(t *testing.T) {
	registry := prometheus.NewRegistry()
	r, err := manager.NewRefusals(registry, t.TempDir(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4000 {
		r.Refused(refusal("Deployment", "greedy", fmt.Sprint(i)))
	}
	r.Refused(refusal("Deployment", "modest", "web"))
	series := gathered(t, registry)
	if n := len(series); n != 102 {
		t.Errorf("%d series, want 100, one for the others, and one of the other namespace: %v", n, series)
	}
}

func TestRefusalsWithoutADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.NewRefusals(prometheus.NewRegistry(), filepath.Join(file, "log"), logr.Discard()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("MG-24 error %v, want one that names %s", err, file)
	}
	r, err := manager.NewRefusals(prometheus.NewRegistry(), "", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	r.Refused(refusal("Namespace", "", "shop"))
}
