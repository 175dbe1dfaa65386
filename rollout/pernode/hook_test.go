package pernode_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// TestHooks: a Pod that waits for its hook will be deleted in any case, so the Pod is never kept instead of another
// Pod.
func TestHooks(t *testing.T) {
	begin := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	pod := func(age int, updated, leaving bool) pernode.Pod {
		return pernode.Pod{
			Name: string(rune('a' + age)), Node: "n1", Scheduled: true, Created: begin.Add(time.Duration(-age) * time.Hour),
			Updated: updated, Health: rollout.Available, Ready: true, PreDeleting: leaving,
		}
	}
	for _, tc := range []struct {
		name  string
		surge int
		pods  []pernode.Pod
		want  []int
	}{
		{"L-2, D-3 the oldest waits, without surge", 0, []pernode.Pod{pod(1, false, false), pod(2, false, true)}, []int{1}},
		{"L-2, D-5 the oldest waits, old Pods", 1, []pernode.Pod{pod(1, false, false), pod(2, false, true)}, []int{1}},
		{"L-2, D-5 the oldest waits, new Pods", 1, []pernode.Pod{pod(1, true, false), pod(2, true, true)}, []int{1}},
		{"L-2, D-5 the youngest waits", 1, []pernode.Pod{pod(1, false, true), pod(2, false, false)}, []int{0}},
		{"D-5 none waits", 1, []pernode.Pod{pod(1, false, false), pod(2, false, false)}, []int{0}},
		{"L-2, D-5 all wait", 1, []pernode.Pod{pod(1, false, true), pod(2, false, true)}, []int{1, 0}},
		{"L-2, D-5 the new one waits, the old one serves", 1, []pernode.Pod{pod(1, true, true), pod(2, false, false)}, []int{0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step, err := pernode.Plan(pernode.Spec{MaxSurge: tc.surge}, []pernode.Node{{Name: "n1", Run: true}}, tc.pods)
			if diff := cmp.Diff(tc.want, step.Delete); diff != "" || err != nil {
				t.Errorf("deleted (-want +got):\n%s%v", diff, err)
			}
		})
	}
}
