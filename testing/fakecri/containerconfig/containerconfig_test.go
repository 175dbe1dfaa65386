package containerconfig_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/containerconfig"
)

func from(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "ns", UID: "u1", DeletionGracePeriodSeconds: ptr.To(int64(3)),
			Labels: map[string]string{"app": "web", containerconfig.PodNameLabel: "spoofed"}, Annotations: map[string]string{"a": "b"},
		},
		Spec: corev1.PodSpec{NodeName: "n1", ServiceAccountName: "sa", TerminationGracePeriodSeconds: ptr.To(int64(30)), Containers: []corev1.Container{{
			Name: "app", Image: "app:v1", Command: []string{"/app"}, Args: []string{"-v"},
			TerminationMessagePath: "/log", TerminationMessagePolicy: "File",
			Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
			Env: []corev1.EnvVar{
				{Name: "NAME", ValueFrom: from("metadata.name")},
				{Name: "SPACE", ValueFrom: from("metadata.namespace")},
				{Name: "UID", ValueFrom: from("metadata.uid")},
				{Name: "NODE", ValueFrom: from("spec.nodeName")},
				{Name: "ACCOUNT", ValueFrom: from("spec.serviceAccountName")},
				{Name: "HOST", ValueFrom: from("status.hostIP")},
				{Name: "IP", ValueFrom: from("status.podIP")},
				{Name: "LABEL", ValueFrom: from("metadata.labels['app']")},
				{Name: "NOTE", ValueFrom: from("metadata.annotations['a']")},
				{Name: "NONE", ValueFrom: from("metadata.annotations['x']")},
				{Name: "ODD", ValueFrom: from("spec.volumes['x']")},
				{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}},
				{Name: "URL", Value: "overwritten"},
				{Name: "URL", Value: "http://$(NAME).$(LATER)"},
				{Name: "LATER", Value: "x"},
			},
		}}},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", HostIP: "10.1.0.1", StartTime: &metav1.Time{Time: time.Unix(100, 0)}},
	}
}

func TestNew(t *testing.T) {
	pod := newPod()
	want := fakecri.Container{
		SandboxID: containerconfig.SandboxID(pod), Name: "app", Attempt: 2, Image: "app:v1",
		Labels: map[string]string{
			"io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u1", "io.kubernetes.container.name": "app",
		},
		Annotations: map[string]string{
			"io.kubernetes.container.hash":                     "HASH",
			"io.kubernetes.container.restartCount":             "2",
			"io.kubernetes.container.terminationMessagePath":   "/log",
			"io.kubernetes.container.terminationMessagePolicy": "File",
			"io.kubernetes.container.preStopHandler":           `{"exec":{"command":["true"]}}`,
			"io.kubernetes.container.ports":                    `[{"containerPort":80}]`,
			"io.kubernetes.pod.deletionGracePeriod":            "3",
			"io.kubernetes.pod.terminationGracePeriod":         "30",
		},
		Argv: []string{"/app", "-v"},
		Env: []fakecri.Variable{
			{Name: "ACCOUNT", Value: "sa"},
			{Name: "HOST", Value: "10.1.0.1"},
			{Name: "IP", Value: "10.0.0.1"},
			{Name: "LABEL", Value: "web"},
			{Name: "LATER", Value: "x"},
			{Name: "NAME", Value: "p"},
			{Name: "NODE", Value: "n1"},
			{Name: "NONE"},
			{Name: "NOTE", Value: "b"},
			{Name: "ODD"},
			{Name: "SPACE", Value: "ns"},
			{Name: "UID", Value: "u1"},
			{Name: "URL", Value: "http://p.$(LATER)"},
		},
	}
	got := containerconfig.New(pod, &pod.Spec.Containers[0], 2)
	if got.Annotations["io.kubernetes.container.hash"] != "" {
		got.Annotations["io.kubernetes.container.hash"] = "HASH"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
}

// TestHash: the hash equals the kubelet's hash (container_hash_test.go of Kubernetes), and changes with the image.
func TestHash(t *testing.T) {
	c := corev1.Container{Name: "test_container", Image: "foo/image:v1"}
	if got := containerconfig.Hash(&c); got != 0x8e45cbd0 {
		t.Errorf("hash %#x, want 0x8e45cbd0", got)
	}
	c.Image = "foo/image:v2"
	if got := containerconfig.Hash(&c); got == 0x8e45cbd0 {
		t.Error("another image has the same hash")
	}
}

func TestSandbox(t *testing.T) {
	pod := newPod()
	want := fakecri.Sandbox{
		ID: containerconfig.SandboxID(pod), Name: "p", Namespace: "ns", UID: "u1", IP: "10.0.0.1", Created: time.Unix(100, 0),
		Labels:      map[string]string{"app": "web", "io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u1"},
		Annotations: map[string]string{"a": "b"},
	}
	if diff := cmp.Diff(want, containerconfig.Sandbox(pod)); diff != "" {
		t.Errorf("sandbox (-want +got):\n%s", diff)
	}
	pod.Status.Phase = corev1.PodFailed
	if !containerconfig.Sandbox(pod).Ended {
		t.Error("the sandbox of a failed Pod has to be over")
	}
}
