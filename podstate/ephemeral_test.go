package podstate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

func TestEphemeral(t *testing.T) {
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	states := map[string]corev1.ContainerState{
		"ok":       {Terminated: &corev1.ContainerStateTerminated{}},
		"exit":     {Terminated: &corev1.ContainerStateTerminated{ExitCode: 4}},
		"run":      {Running: &corev1.ContainerStateRunning{}},
		"create":   waits("ContainerCreating"),
		"wait":     waits(""),
		"pull":     waits("ImagePullBackOff"),
		"runtime":  waits("RunContainerError"),
		"anything": {},
	}
	for _, tc := range []struct{ name, have, want, obstacle string }{
		{"no container", "", "", ""},
		{"somebody else's", "!exit", "", ""},
		{"EJ-6 ended well, all", "ok ok", "Succeeded", ""},
		{"EJ-6 ended well, beside somebody else's", "ok !run", "Succeeded", ""},
		{"EJ-6 ended badly, one", "run exit", "Failed", ""},
		{"EJ-6 cannot be run, one", "run runtime", "Failed", ""},
		{"EJ-6 runs, one", "ok wait run", "Running", ""},
		{"EJ-6 runs, one cannot start", "pull run", "Running", "c0: ImagePullBackOff"},
		{"EJ-6 waits", "ok create", "Waiting", ""},
		{"EJ-6 cannot start", "wait pull", "Waiting", "c1: ImagePullBackOff"},
		{"EJ-6 not reported", "ok ?", "Unreported", ""},
		{"EJ-6 reported without a state", "anything", "Unreported", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			for i, state := range strings.Fields(tc.have) {
				c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "c" + string(rune('0'+i)), Image: "mine"}}
				if other, ok := strings.CutPrefix(state, "!"); ok {
					c.Image, state = "other", other
				}
				pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, c)
				if is, ok := states[state]; ok {
					pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: is})
				}
			}
			got, obstacle := podstate.Ephemeral(pod, func(c *corev1.EphemeralContainer) bool { return c.Image == "mine" })
			if string(got) != tc.want || obstacle != tc.obstacle {
				t.Errorf("%q, %q; want %q, %q", got, obstacle, tc.want, tc.obstacle)
			}
			if ended := got.HasEnded(); ended != (tc.want == "Succeeded" || tc.want == "Failed") {
				t.Errorf("ended: %v", ended)
			}
		})
	}
}
