package workloadspread

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
)

// TestGivesBack: a PodDisruptionBudget may refuse an eviction on and on.
func TestGivesBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		review guard.Review
		want   bool
	}{
		{"WS-27 a deletion", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Delete}, true},
		{"an eviction", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Evict}, false},
		{"a dry run", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Delete, DryRun: true}, false},
		{"an update", guard.Review{Pod: &corev1.Pod{}, Operation: disruption.Update}, false},
		{"no Pod", guard.Review{Operation: disruption.Delete}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := givesBack(&c.review); got != c.want {
				t.Errorf("%t", got)
			}
		})
	}
}
