package migrate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/migrate"
)

func TestNext(t *testing.T) {
	tests := []struct {
		name string
		c    migrate.Counts
		want migrate.Step
	}{
		{"KC-29 the CloneSet grows by the surge", migrate.Counts{Total: 10, Source: 10, MaxSurge: 2, IsAvailable: true}, migrate.Step{Add: 2}},
		{"KC-29 nothing shrinks before the new Pods are available", migrate.Counts{Total: 10, Added: 2, Source: 10, MaxSurge: 2}, migrate.Step{}},
		{"KC-29 the Deployment shrinks by what has grown", migrate.Counts{Total: 10, Added: 2, Source: 10, MaxSurge: 2, IsAvailable: true}, migrate.Step{Remove: 2}},
		{"the last step is smaller", migrate.Counts{Total: 3, Added: 2, Removed: 2, Source: 1, MaxSurge: 2, IsAvailable: true}, migrate.Step{Add: 1}},
		{"a surge of 0 counts as 1", migrate.Counts{Total: 3, Source: 3, IsAvailable: true}, migrate.Step{Add: 1}},
		{"done", migrate.Counts{Total: 3, Added: 3, Removed: 3, MaxSurge: 1, IsAvailable: true}, migrate.Step{Done: true}},
		{"nothing to move", migrate.Counts{MaxSurge: 1, IsAvailable: true}, migrate.Step{Done: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, migrate.Next(tt.c)); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzNext: every move ends. The number of Pods never falls below the original number, and never exceeds the surge.
func FuzzNext(f *testing.F) {
	f.Add(uint8(10), uint8(10), uint8(2))
	f.Add(uint8(3), uint8(5), uint8(0))
	f.Add(uint8(0), uint8(1), uint8(9))
	f.Fuzz(func(t *testing.T, total, source, surge uint8) {
		c := migrate.Counts{Total: int64(min(total, source)), Source: int64(source), MaxSurge: int64(surge), IsAvailable: true}
		for range 1000 {
			step := migrate.Next(c)
			c.Added, c.Removed, c.Source = c.Added+step.Add, c.Removed+step.Remove, c.Source-step.Remove
			pods := c.Source + c.Added
			if pods < int64(source) || pods > int64(source)+max(int64(surge), 1) || c.Removed > c.Added {
				t.Fatalf("%d Pods of %d: %+v", pods, source, c)
			}
			if step.Done {
				if c.Added != c.Total || c.Removed != c.Total {
					t.Fatalf("the end comes early: %+v", c)
				}
				return
			}
		}
		t.Fatalf("no end: %+v", c)
	})
}

func TestTwin(t *testing.T) {
	source := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(`{metadata: {name: web, namespace: a, labels: {x: "1"}, annotations: {deployment.kubernetes.io/revision: "3"}},
spec: {replicas: 4, paused: true, selector: {matchLabels: {app: web}}, strategy: {rollingUpdate: {maxSurge: 25%}}, template: {spec: {}}}}`), &source.Object); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, version, path string
		copied              bool
		replicas            int64
	}{
		{"KC-28 v1beta1", "v1beta1", "spec.updateStrategy.rollingUpdate.", false, 0},
		{"KC-28 v1alpha1, with --copy", "v1alpha1", "spec.updateStrategy.", true, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := migrate.Twin(source, "web2", tt.version, tt.copied)
			if err != nil {
				t.Fatal(err)
			}
			if fields.Int(got.Object, "spec.replicas") != tt.replicas || !fields.Bool(got.Object, tt.path+"paused") ||
				fields.String(got.Object, tt.path+"maxSurge") != "25%" || fields.String(got.Object, tt.path+"podUpdatePolicy", tt.path+"type") != "ReCreate" ||
				len(got.GetAnnotations()) != 0 || got.GetLabels()["x"] != "1" {
				t.Errorf("the CloneSet is %v", got.Object)
			}
		})
	}
}
