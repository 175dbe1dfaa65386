package pernode_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// TestRefusesPodsGivenTwice: Plan refuses a list with the same Pod twice, because the Pod would be deleted as its own
// duplicate.
func TestRefusesPodsGivenTwice(t *testing.T) {
	pod := pernode.Pod{Name: "p", Node: "a", Scheduled: true, Health: rollout.Available, Ready: true, Updated: true}
	step, err := pernode.Plan(pernode.Spec{}, []pernode.Node{{Name: "a", Run: true}}, []pernode.Pod{pod, pod})
	if !errors.Is(err, rollout.InvalidRollout) || len(step.Delete) > 0 {
		t.Errorf("delete %v, error %v", step.Delete, err)
	}
}

// TestNamesAPodOnce: a step names a Pod only once, even if there are two reasons to delete the Pod: the Node also has
// an available Pod of the old revision, and the Node should have no Pod any more.
func TestNamesAPodOnce(t *testing.T) {
	pods := []pernode.Pod{
		{Name: "old", Node: "a", Scheduled: true, Health: rollout.Available, Ready: true},
		{Name: "new", Node: "a", Health: rollout.Unavailable, Updated: true},
	}
	step, err := pernode.Plan(pernode.Spec{MaxUnavailable: 1, LeaveUnfit: true}, []pernode.Node{{Name: "a", Continue: true}}, pods)
	if diff := cmp.Diff([]int{1}, step.Delete); diff != "" || err != nil {
		t.Errorf("error %v, deleted (-want +got):\n%s", err, diff)
	}
}
