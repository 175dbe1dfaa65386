package faultapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func exit(code int32) act {
	return func(c *cluster) bool { return c.nodes.Exit(c.pod.UID, "app", code) }
}

// said returns an act in which another client than the kubelet writes the Pod's phase.
func said(phase string) act { return patch("status", `{"status":{"phase":"`+phase+`"}}`) }

// TestExit: an exited container is restarted if the Pod's restartPolicy and restart rules say so; otherwise the Pod
// ends with the container.
func TestExit(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy corev1.RestartPolicy
		do     []act
		want   string
	}{
		{"it has not been seen", "Never", []act{exit(1), report}, "app app:v1 false/0 Error, True, False, Failed"},
		{"Never, 0", "Never", []act{exit(0), run, report}, "app app:v1 false/0 Completed, True, False, Succeeded"},
		{"Never, 1", "Never", []act{exit(1), run, report}, "app app:v1 false/0 Error, True, False, Failed"},
		{"OnFailure, 0", "OnFailure", []act{exit(0), run, report}, "app app:v1 false/0 Completed, True, False, Succeeded"},
		{"OnFailure, 1", "OnFailure", []act{exit(1), run, ready, report}, "app app:v1 true/1, True, True, Running"},
		{"Always, 0", "Always", []act{exit(0), run, ready, report}, "app app:v1 true/1, True, True, Running"},
		{"another image for what has ended", "Never", []act{exit(0), report, patch("", `{"spec":{"containers":[{"name":"app","image":"app:v2"}]}}`), observe, run, report}, "app app:v1 false/0 Completed, True, False, Succeeded"},
		{"somebody else says it has ended", "Never", []act{report, said("Succeeded"), observe, run, report}, "app app:v1 false/0 Error, True, False, Succeeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, func(pod *corev1.Pod) { pod.Spec.RestartPolicy = tc.policy })
			for _, do := range append([]act{schedule, observe, run, ready}, tc.do...) {
				do(c)
			}
			if diff := cmp.Diff(tc.want, describeAll(c)); diff != "" {
				t.Errorf("Pod (-want +got):\n%s", diff)
			}
		})
	}
}
