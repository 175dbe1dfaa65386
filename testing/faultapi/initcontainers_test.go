package faultapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podstate"
)

// withInit gives a Pod an ordinary init container followed by a native sidecar.
func withInit(pod *corev1.Pod) {
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "setup", Image: "setup:v1"},
		{Name: "proxy", Image: "proxy:v1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
	}
}

func initImage(name, image string) act {
	return patch("", fmt.Sprintf(`{"spec":{"initContainers":[{"name":%q,"image":%q}]}}`, name, image))
}

func proxyReady(c *cluster) bool   { return c.nodes.SetReady(c.pod.UID, "proxy", true) }
func proxyUnready(c *cluster) bool { return c.nodes.SetReady(c.pod.UID, "proxy", false) }
func crashProxy(c *cluster) bool   { return c.nodes.Crash(c.pod.UID, "proxy") }
func crashSetup(c *cluster) bool   { return c.nodes.Crash(c.pod.UID, "setup") }

// describeAll describes each container of the Pod, init containers first, and the conditions initialized and ready.
func describeAll(c *cluster) string {
	pod := c.nodes.Pod(client.ObjectKeyFromObject(c.pod), c.pod.UID)
	var parts []string
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range list {
			part := fmt.Sprintf("%s %s %t/%d", s.Name, strings.TrimPrefix(s.Image, "docker.io/library/"), s.Ready, s.RestartCount)
			switch {
			case s.State.Waiting != nil:
				part += " " + s.State.Waiting.Reason
			case s.State.Terminated != nil:
				part += " " + s.State.Terminated.Reason
			}
			parts = append(parts, part)
		}
	}
	for _, name := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady} {
		if condition := podstate.Condition(pod, name); condition != nil {
			parts = append(parts, string(condition.Status))
		}
	}
	return strings.Join(append(parts, string(pod.Status.Phase)), ", ")
}

// TestInitContainers: ordinary init containers end before all later containers start, and native sidecars keep
// running while the main containers run.
func TestInitContainers(t *testing.T) {
	start := []act{schedule, observe, run, ready, proxyReady, report}
	begin := func(more ...act) []act { return append(slices.Clip(start), more...) }
	for _, tc := range []struct {
		name string
		do   []act
		want string
	}{
		{
			"seen, and not run",
			[]act{schedule, observe, report},
			"setup setup:v1 false/0 ContainerCreating, proxy proxy:v1 false/0 ContainerCreating, app app:v1 false/0 ContainerCreating, False, False, Pending",
		},
		{"run", start, "setup setup:v1 true/0 Completed, proxy proxy:v1 true/0, app app:v1 true/0, True, True, Running"},
		{"run again", begin(run, report), "setup setup:v1 true/0 Completed, proxy proxy:v1 true/0, app app:v1 true/0, True, True, Running"},
		{"a native sidecar counts for the Pod", begin(proxyUnready, report), "setup setup:v1 true/0 Completed, proxy proxy:v1 false/0, app app:v1 true/0, True, False, Running"},
		{
			"another image restarts a native sidecar alone", begin(initImage("proxy", "proxy:v2"), observe, run, report),
			"setup setup:v1 true/0 Completed, proxy proxy:v2 false/1, app app:v1 true/0, True, False, Running",
		},
		{
			"what is done is not run again", begin(initImage("setup", "setup:v2"), observe, run, report),
			"setup setup:v1 true/0 Completed, proxy proxy:v1 true/0, app app:v1 true/0, True, True, Running",
		},
		{"a crash", begin(crashProxy, report), "setup setup:v1 true/0 Completed, proxy proxy:v1 false/1, app app:v1 true/0, True, False, Running"},
		{"what is done does not crash", begin(crashSetup, report), "setup setup:v1 true/0 Completed, proxy proxy:v1 true/0, app app:v1 true/0, True, True, Running"},
		{
			"nothing starts before its predecessors", append([]act{broken("setup:v1", true)}, start...),
			"setup setup:v1 false/0 ImagePullBackOff, proxy proxy:v1 false/0 ContainerCreating, app app:v1 false/0 ContainerCreating, False, False, Pending",
		},
		{
			"not even behind a native sidecar", append([]act{broken("proxy:v1", true)}, start...),
			"setup setup:v1 true/0 Completed, proxy proxy:v1 false/0 ImagePullBackOff, app app:v1 false/0 ContainerCreating, False, False, Pending",
		},
		{
			"a bad image of a native sidecar stops only that", begin(broken("proxy:v2", true), initImage("proxy", "proxy:v2"), observe, run, report),
			"setup setup:v1 true/0 Completed, proxy proxy:v1 false/0 ImagePullBackOff, app app:v1 true/0, True, False, Running",
		},
		{"settled", []act{settle}, "setup setup:v1 true/0 Completed, proxy proxy:v1 true/0, app app:v1 true/0, True, True, Running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, withInit)
			for _, do := range tc.do {
				do(c)
			}
			if diff := cmp.Diff(tc.want, describeAll(c)); diff != "" {
				t.Errorf("Pod (-want +got):\n%s", diff)
			}
		})
	}
}
