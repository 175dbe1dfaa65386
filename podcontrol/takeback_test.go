package podcontrol_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
)

// TestTakenBack: a Pod that waits for its hook before a deletion, but is wanted again, returns to service. The Pod
// loses a delete label set by an update, but keeps a label set by a user. If the hook has MarkNotReady, the deletion
// is not cancelled: the Pod is deleted as soon as the hook has released the Pod.
func TestTakenBack(t *testing.T) {
	c := control(t)
	plan := updater(t).Plan(template("app:v1"), template("app:v2"))
	notReady := func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: hookGate, Status: corev1.ConditionFalse})
	}
	type outcome struct {
		Act      podcontrol.Act
		Recreate bool
		Requests []string
	}
	for _, tc := range []struct {
		name     string
		hook     *lifecycle.Hook
		mark     string
		edits    []func(*corev1.Pod)
		supersed bool // an in-place update replaces the recreation
		want     outcome
	}{
		{name: "the rollout is taken back", hook: drain(false), mark: podcontrol.RecreateMark, edits: []func(*corev1.Pod){withHook}, want: outcome{Act: podcontrol.Patch, Requests: []string{": state=PreparingNormal, delete="}}},
		{name: "another update goes in place", hook: drain(false), mark: podcontrol.RecreateMark, edits: []func(*corev1.Pod){withHook}, supersed: true, want: outcome{Act: podcontrol.Patch, Requests: []string{": state=PreparingNormal, delete="}}},
		{name: "out of service for the hook, which holds it", hook: drain(true), mark: podcontrol.RecreateMark, edits: []func(*corev1.Pod){withHook, notReady}, want: outcome{Act: podcontrol.Patch}},
		{name: "out of service for the hook, which has let it go", hook: drain(true), mark: podcontrol.RecreateMark, edits: []func(*corev1.Pod){notReady}, want: outcome{Act: podcontrol.Delete}},
		{name: "the same, scaled in and out again", hook: drain(true), edits: []func(*corev1.Pod){notReady}, want: outcome{Act: podcontrol.Delete}},
		{name: "the same, and another update goes in place", hook: drain(true), mark: podcontrol.RecreateMark, edits: []func(*corev1.Pod){notReady}, supersed: true, want: outcome{Act: podcontrol.Delete, Recreate: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			edits := slices.Concat([]func(*corev1.Pod){running, label(stateLabel, "PreparingDelete")}, tc.edits)
			if tc.mark != "" {
				edits = append(edits, label(deleteLabel, tc.mark))
			}
			pod := newPod("web-0", edits...)
			pod.ResourceVersion = "7"
			rules := podcontrol.Rules{Policy: podcontrol.InPlaceIfPossible, Hooks: lifecycle.Hooks{PreDelete: tc.hook}}
			step, err := c.Cancel(pod, rules, begin)
			if tc.supersed {
				step, err = c.Update(pod, rules, plan, "web-3", begin)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := outcome{Act: step.Act, Recreate: step.Recreate, Requests: say(t, pod, step, begin).Requests}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, change := range step.Changes {
				// The removal of the delete label needs the resourceVersion, because a user may have set the label in
				// the meantime.
				if _, marks := change.Labels[deleteLabel]; marks && change.ResourceVersion != "7" {
					t.Errorf("the mark is removed from whatever Pod is there: %+v", change)
				}
			}
		})
	}
}
