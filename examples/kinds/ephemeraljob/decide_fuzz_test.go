package ephemeraljob

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/podstate"
)

// FuzzDecide decides for a job with Pods in any state. No Pod gets the containers twice, gets two containers of the
// same name, or gets containers although it is not wanted. The number of busy Pods stays within the limit. The status
// of an ended job does not change, and a job that waits says why. A second decision, with the Pods in another order,
// equals the first.
func FuzzDecide(f *testing.F) {
	f.Fuzz(func(t *testing.T, spec, podBytes []byte) {
		j, pods := drawn(spec), drawnPods(podBytes)
		decided := func() *decision {
			return decide(&observation{Job: j, Settings: settingsOf(j), Pods: pods, Now: second(20)})
		}
		d := decided()
		checkDecision(t, j, d, pods)
		slices.Reverse(pods)
		if diff := cmp.Diff([]string{told(d), fmt.Sprint(d.Status)}, []string{told(decided()), fmt.Sprint(decided().Status)}); diff != "" {
			t.Errorf("decided again (-first +second):\n%s", diff)
		}
	})
}

func checkDecision(t *testing.T, j *v1alpha1.EphemeralJob, d *decision, pods []*corev1.Pod) {
	t.Helper()
	next, busy, done := d.Open[:min(d.Step.Start, len(d.Open))], 0, 0
	for _, pod := range pods {
		for i := range pod.Spec.EphemeralContainers {
			c := &pod.Spec.EphemeralContainers[i]
			if c.Name == "debugger" && slices.Contains(next, pod) {
				t.Errorf("Pod %s gets a second container %s", pod.Name, c.Name)
			}
			state, _ := podstate.Ephemeral(pod, func(other *corev1.EphemeralContainer) bool { return other.Name == c.Name })
			if ours := isOf(c, j.UID) && c.Name == "debugger" && pod.DeletionTimestamp == nil && pod.Labels["app"] == "web" && pod.Status.Phase != corev1.PodSucceeded; ours {
				if done++; !state.HasEnded() {
					busy++
				}
			}
		}
	}
	if len(next) > 0 && (j.Spec.Paused || j.Status.Finished() || busy+len(next) > int(*j.Spec.Parallelism)) {
		t.Errorf("%d Pods get containers beside %d, %d may be busy; %+v", len(next), busy, *j.Spec.Parallelism, j.Status)
	}
	if wanted := j.Spec.Replicas; wanted != nil && len(next) > 0 && done+len(next) > int(*wanted) {
		t.Errorf("%d Pods get containers beside %d of %d", len(next), done, *wanted)
	}
	for _, pod := range next {
		if pod.DeletionTimestamp != nil || pod.Labels["app"] != "web" || pod.Status.Phase == corev1.PodSucceeded {
			t.Errorf("Pod %s gets containers", pod.Name)
		}
	}
	s := &d.Status
	if j.Status.Finished() {
		if diff := cmp.Diff(j.Status, *s); diff != "" || d.Step.State != completion.Over {
			t.Errorf("an ended job changes: %s %s", d.Step.State, diff)
		}
		return
	}
	if s.Finished() != (s.CompletionTime != nil) || d.Step.Remove {
		t.Errorf("%+v of %+v", d.Step, s)
	}
	if n := s.Running + s.Waiting + s.Succeeded + s.Failed; n > s.Matches {
		t.Errorf("%d Pods in %+v", n, s)
	}
	stands := s.Phase == v1alpha1.EphemeralJobUnknown || s.Phase == v1alpha1.EphemeralJobWaiting
	if stands && len(next) == 0 && s.Waiting == 0 && s.Conditions.Get(v1alpha1.EJobWaiting) == nil && s.Conditions.Get(v1alpha1.EJobMatchedEmpty) == nil && busy == 0 {
		t.Errorf("stands without a reason: %+v", s)
	}
}

func drawn(data []byte) *v1alpha1.EphemeralJob {
	at := func(i int) int {
		if i < len(data) {
			return int(data[i])
		}
		return 0
	}
	return job(parallelism(int32(at(0)%4)), func(j *v1alpha1.EphemeralJob) {
		if n := at(1) % 6; n > 0 {
			replicas(int32(n - 1))(j)
		}
		j.Spec.Paused = at(2)&1 > 0
		if at(2)&2 > 0 {
			deadline(int64(at(2) / 8))(j)
		}
		if at(2)&4 > 0 {
			ttl(int32(at(2) / 8))(j)
		}
		switch at(3) % 5 {
		case 1:
			started(at(3) / 5)(j)
		case 2:
			ended(v1alpha1.EphemeralJobFailed, at(3)/5)(j)
		case 3:
			j.Status.Phase = v1alpha1.EphemeralJobSucceeded // the status has no times
		}
	})
}

func drawnPods(data []byte) (out []*corev1.Pod) {
	kinds := []string{"debugger ok", "debugger exit1", "debugger run", "debugger pull", "debugger wait", "debugger ?", "debugger broken", "!debugger run", "!shell run", "shell run"}
	edits := []func(*corev1.Pod){nil, dying, over, unlabelled}
	for i := 0; i+1 < min(len(data), 24); i += 2 {
		one := pod(fmt.Sprintf("p%d", i), int(data[i])%5)
		if k := int(data[i+1]) % (len(kinds) + 3); k < len(kinds) {
			one = pod(one.Name, int(data[i])%5, kinds[k])
		}
		if edit := edits[int(data[i])/64]; edit != nil {
			edit(one)
		}
		out = append(out, one)
	}
	return out
}
