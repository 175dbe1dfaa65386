package pernode_test

import (
	"errors"
	"testing"

	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// TestRefusesPodsGivenTwice: two selectors may list the same Pod, and the Pod would be deleted for itself.
func TestRefusesPodsGivenTwice(t *testing.T) {
	pod := pernode.Pod{Name: "p", Node: "a", Scheduled: true, Health: rollout.Available, Ready: true, Updated: true}
	step, err := pernode.Plan(pernode.Spec{}, []pernode.Node{{Name: "a", Run: true}}, []pernode.Pod{pod, pod})
	if !errors.Is(err, rollout.InvalidRollout) || len(step.Delete) > 0 {
		t.Errorf("delete %v, error %v", step.Delete, err)
	}
}
