package rollout_test

import (
	"errors"
	"testing"

	"github.com/workloadkit/workloadkit/rollout"
)

// TestPerNodeRefusesPodsGivenTwice: two selectors may list the same Pod, and the Pod would be deleted for itself.
func TestPerNodeRefusesPodsGivenTwice(t *testing.T) {
	pod := rollout.NodePod{Name: "p", Node: "a", Scheduled: true, Health: rollout.Available, Ready: true, Updated: true}
	step, err := rollout.PerNode(rollout.NodeSpec{}, []rollout.Node{{Name: "a", Run: true}}, []rollout.NodePod{pod, pod})
	if !errors.Is(err, rollout.InvalidRollout) || len(step.Delete) > 0 {
		t.Errorf("delete %v, error %v", step.Delete, err)
	}
}
