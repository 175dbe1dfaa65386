package seams_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/cli/seams"
)

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "a:1"}}}}
}

func TestUpdatePodSpec(t *testing.T) {
	united := &v1beta1.UnitedDeployment{}
	united.Spec.Template.CloneSetTemplate = &v1beta1.CloneSetTemplateSpec{Spec: v1beta1.CloneSetSpec{Template: template()}}
	old := &v1alpha1.UnitedDeployment{}
	old.Spec.Template.DeploymentTemplate = &v1beta1.DeploymentTemplateSpec{Spec: appsv1.DeploymentSpec{Template: template()}}
	schedule := &v1beta1.AdvancedCronJob{}
	schedule.Spec.Template.BroadcastJobTemplate = &v1beta1.BroadcastJobTemplateSpec{Spec: v1beta1.BroadcastJobSpec{Template: template()}}
	sidecars := &v1beta1.SidecarSet{}
	sidecars.Spec.InitContainers = []pub.SidecarContainer{{Container: corev1.Container{Name: "init", Image: "i:1"}}}
	sidecars.Spec.Containers = []pub.SidecarContainer{{Container: corev1.Container{Name: "app", Image: "a:1"}}}
	tests := []struct {
		name   string
		object runtime.Object
		image  func() string
	}{
		{"CloneSet", &v1beta1.CloneSet{Spec: v1beta1.CloneSetSpec{Template: template()}}, nil},
		{"CloneSet, v1alpha1", &v1alpha1.CloneSet{Spec: v1alpha1.CloneSetSpec{Template: template()}}, nil},
		{"StatefulSet", &v1beta1.StatefulSet{Spec: v1beta1.StatefulSetSpec{Template: template()}}, nil},
		{"DaemonSet, v1alpha1", &v1alpha1.DaemonSet{Spec: v1alpha1.DaemonSetSpec{Template: template()}}, nil},
		{"UnitedDeployment", united, nil},
		{"UnitedDeployment, v1alpha1", old, nil},
		{"AdvancedCronJob", schedule, nil},
		{"KC-18 SidecarSet", sidecars, func() string { return sidecars.Spec.Containers[0].Image }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			known, err := seams.UpdatePodSpec(tt.object, func(spec *corev1.PodSpec) error {
				spec.Containers[0].Image = "a:2"
				return nil
			})
			if !known || err != nil {
				t.Fatal(known, err)
			}
			image := tt.image
			if image == nil {
				image = func() string {
					templates, _ := seams.Templates(tt.object)
					return templates[0].Spec.Containers[0].Image
				}
			}
			if got := image(); got != "a:2" {
				t.Errorf("the image is %s", got)
			}
		})
	}
	if known, _ := seams.UpdatePodSpec(&appsv1.Deployment{}, func(*corev1.PodSpec) error { return nil }); known {
		t.Error("a Deployment is taken from kubectl")
	}
	_, err := seams.UpdatePodSpec(sidecars, func(spec *corev1.PodSpec) error {
		spec.Containers = nil
		return nil
	})
	if err == nil {
		t.Error("a sidecar is removed")
	}
}

func TestInstallTwice(t *testing.T) {
	for range 2 {
		if err := seams.Install(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRestore(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(3), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"added": "later"}}},
	}}}
	revision := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"spec":{"$patch":"x","template":{"$patch":"replace","spec":{"priority":5}}}}`)}}
	if err := seams.Restore(u, revision); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"priority": int64(5)}}}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
		t.Errorf("5.8 KC-11 spec (-want +got):\n%s", diff)
	}
	for _, data := range []string{"", "{", "{}", `{"spec":1}`} {
		if err := seams.Restore(u, &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(data)}}); err == nil {
			t.Errorf("a revision of %q is restored", data)
		}
	}
}

func TestRevisions(t *testing.T) {
	yes := true
	revision := func(name string, number int64, owner types.UID) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Revision: number, ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &yes}},
		}}
	}
	clients := fake.NewClientset(revision("c", 10, "u"), revision("a", 9, "u"), revision("b", 1, "other"))
	got, err := seams.Revisions(t.Context(), clients, "a", "u")
	if err != nil || len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" {
		t.Errorf("KC-3 %v, %v", got, err)
	}
}
