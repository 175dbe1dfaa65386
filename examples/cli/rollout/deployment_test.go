package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// set returns a ReplicaSet of a revision with an image.
func set(revision, image string) appsv1.ReplicaSet {
	s := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: image, Annotations: map[string]string{annotationRevision: revision, "note": image}}}
	s.Spec.Template.Labels = map[string]string{"pod-template-hash": image}
	s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: image}}
	return s
}

func TestChooseSet(t *testing.T) {
	newest, older := set("10", "b"), set("9", "a")
	other := set("0", "c")
	tests := []struct {
		name     string
		present  *corev1.PodTemplateSpec
		number   int64
		isCanary bool
		want     string
	}{
		{"KC-10 the previous", &newest.Spec.Template, 0, false, "a"},
		{"KC-10 a number", &newest.Spec.Template, 9, false, "a"},
		{"KC-12 a canary whose template has no ReplicaSet", &other.Spec.Template, 0, true, "b"},
		{"KC-12 a canary whose template is the newest ReplicaSet's", &newest.Spec.Template, 0, true, "a"},
		{"KC-10 a missing number", &newest.Spec.Template, 3, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := chooseSet([]appsv1.ReplicaSet{older, newest}, tt.present, tt.number, tt.isCanary)
			if (err != nil) != (tt.want == "") || err == nil && got.Name != tt.want {
				t.Errorf("%v, %v, want %q", got, err, tt.want)
			}
		})
	}
	if _, err := chooseSet([]appsv1.ReplicaSet{newest}, &newest.Spec.Template, 0, false); err == nil {
		t.Error("KC-10 a single revision is gone back to")
	}
}

func TestBackTo(t *testing.T) {
	u := object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {rollouts.kruise.io/in-progressing: x, deployment.kubernetes.io/revision: "10", note: b}},
spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: b}]}}}}`)
	target := set("9", "a")
	if operation, err := backTo(&target)(u); err != nil || operation != "rolled back" {
		t.Fatal(operation, err)
	}
	want := map[string]string{"rollouts.kruise.io/in-progressing": "x", annotationRevision: "10", "note": "a"}
	if diff := cmp.Diff(want, u.GetAnnotations()); diff != "" {
		t.Errorf("KC-11 annotations (-want +got):\n%s", diff)
	}
	if operation, err := backTo(&target)(u); err != nil || operation != "skipped rollback (current template already matches revision 9)" {
		t.Error(operation, err)
	}
}

func TestIsCanaryRelease(t *testing.T) {
	tests := []struct {
		name        string
		paused      bool
		annotations map[string]string
		want        bool
	}{
		{"KC-12 canary", true, map[string]string{annotationInProgress: ""}, true},
		{"KC-12 the partition strategy", true, map[string]string{annotationInProgress: "", annotationStrategy: ""}, false},
		{"not paused", false, map[string]string{annotationInProgress: ""}, false},
		{"paused by a user", true, nil, false},
	}
	for _, tt := range tests {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}, Spec: appsv1.DeploymentSpec{Paused: tt.paused}}
		if got := isCanaryRelease(d); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
