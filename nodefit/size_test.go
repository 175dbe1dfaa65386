package nodefit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/nodefit"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func asking(pairs ...string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
}

func TestSize(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := asking("cpu", "1")
	sidecar.RestartPolicy = &always
	limited := corev1.Container{Resources: corev1.ResourceRequirements{Limits: list("example.com/gpu", "1")}}
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		has  corev1.ResourceList
		want []string
	}{
		{"BJ-3 as much as the Node has", corev1.PodSpec{Containers: []corev1.Container{asking("cpu", "1"), asking("cpu", "1000m")}}, list("cpu", "2"), nil},
		{"BJ-3 a little more", corev1.PodSpec{Containers: []corev1.Container{asking("cpu", "1"), asking("cpu", "1001m")}}, list("cpu", "2"), []string{"status.allocatable[cpu]"}},
		{"BJ-3 two resources, in their order", corev1.PodSpec{Containers: []corev1.Container{asking("memory", "2Gi", "cpu", "3")}}, list("cpu", "2", "memory", "1Gi"), []string{"status.allocatable[cpu]", "status.allocatable[memory]"}},
		{"BJ-3 one that the Node has not", corev1.PodSpec{Containers: []corev1.Container{limited}}, list("cpu", "2"), []string{"status.allocatable[example.com/gpu]"}},
		{"BJ-3 nothing of one that the Node has not", corev1.PodSpec{Containers: []corev1.Container{asking("example.com/gpu", "0")}}, nil, nil},
		{"an init container is alone", corev1.PodSpec{InitContainers: []corev1.Container{asking("cpu", "2")}, Containers: []corev1.Container{asking("cpu", "2")}}, list("cpu", "2"), nil},
		{"but for native sidecars", corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{asking("cpu", "2")}}, list("cpu", "2"), []string{"status.allocatable[cpu]"}},
		{"overhead", corev1.PodSpec{Overhead: list("cpu", "1m"), Containers: []corev1.Container{asking("cpu", "2")}}, list("cpu", "2"), []string{"status.allocatable[cpu]"}},
		{
			"the Pod as a whole",
			corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("cpu", "3")}, Containers: []corev1.Container{asking("cpu", "1")}},
			list("cpu", "2"),
			[]string{"status.allocatable[cpu]"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := newNode("n1", nil)
			node.Status.Allocatable = tc.has
			var got []string
			for _, why := range nodefit.SizeOf(&tc.spec).Fits(node) {
				got = append(got, why.Path)
				if why.Code != nodefit.NodeTooSmall || why.Object.Name != "n1" || why.New == "" {
					t.Errorf("reason %+v", why)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	before, after := newNode("n1", nil), newNode("n1", nil)
	if before.Status.Allocatable = list("cpu", "1"); nodefit.ChangedSize(after, after) || !nodefit.ChangedSize(before, after) {
		t.Error("ChangedSize")
	}
	if after.Status.Allocatable = list("cpu", "1000m"); nodefit.ChangedSize(before, after) {
		t.Error("one core is not 1000 thousandths")
	}
}
