package faultapi_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestInstances: Instances returns the true state of a container, even before the kubelet reports the state.
func TestInstances(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   []act
		want string
	}{
		{"not started", nil, ""},
		{"started", []act{run}, "app 0 app:v1 runs"},
		{"crashed", []act{run, crash}, "app 1 app:v1 runs"},
		{"exited", []act{run, exit(3)}, "app 0 app:v1 code 3"},
		{"started again", []act{run, exit(3), run}, "app 1 app:v1 runs"},
		{"evicted", []act{run, evict}, "app 0 app:v1 code 137"},
		{"gone", []act{run, deletePod, observe, terminate, observe}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyAlways })
			for _, do := range append([]act{schedule, observe}, tc.do...) {
				do(c)
			}
			got := ""
			for _, i := range c.nodes.Instances() {
				got += fmt.Sprint(i.Name, " ", i.Restarts, " ", i.Image)
				if i.Exit == nil {
					got += " runs"
				} else {
					got += fmt.Sprint(" code ", *i.Exit)
				}
				if want := fmt.Sprintf("%s/app/%d", c.pod.UID, i.Restarts); i.ID != want || i.Pod.UID != c.pod.UID || i.Digest != c.nodes.Images.Digest(i.Image) {
					t.Errorf("ID %s, Pod %s, digest %s; want ID %s", i.ID, i.Pod.UID, i.Digest, want)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
		})
	}
}
