package foresee_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/examples/cli/foresee"
)

// TestPlayWithoutNodes: if a user may not read Nodes, each new Pod in the preview can be scheduled, whatever its
// nodeSelector.
func TestPlayWithoutNodes(t *testing.T) {
	selecting := func(image, disk string) *v1beta1.CloneSet {
		set := cloneSet(3, image, "1", v1beta1.ReCreate, "1")
		set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": disk}
		return set
	}
	objects, stored := build(t, selecting("app:v1", "ssd"))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pod.Spec.NodeName = "n1"
		}
	}
	for _, disk := range []string{"ssd", "nvme"} { // the selector of the existing Pods, and a new selector
		r := play(t, objects, stored, selecting("app:v2", disk))
		got := map[forecast.Action]int{}
		for i := range r.Pods {
			got[r.Pods[i].Action]++
		}
		if diff := cmp.Diff(map[forecast.Action]int{forecast.Recreate: 3}, got); diff != "" || len(r.Stops) > 0 {
			t.Errorf("disk %s: Pods (-want +got):\n%s\n%s", disk, diff, forecast.Text(r, true))
		}
	}
}

// TestPlayKeepsForeignPods: Pods of an owner that was not read keep their owner.
func TestPlayKeepsForeignPods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-0", UID: "p", Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "native", Controller: new(true)}},
	}}
	pod.Spec.NodeName, pod.Spec.Containers = "n1", []corev1.Container{{Name: "app", Image: "app:v1"}}
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Spec.Replicas, set.Spec.Selector = new(int32(1)), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels, set.Spec.Template.Spec.Containers = map[string]string{"app": "web"}, pod.Spec.Containers
	set.Spec.ServiceName = "web"
	in, err := foresee.Play(t.Context(), foresee.Question{Objects: []client.Object{pod}, Changed: untyped(t, set, "StatefulSet"), Now: now(), ManagerNamespace: "kruise-system"})
	if err != nil {
		t.Fatal(err)
	}
	if r := forecast.Of(in); len(r.Stops) == 0 {
		t.Errorf("the name of the Pod is taken, and nothing stops:\n%s", forecast.Text(r, true))
	}
}

// TestPlayWithGates: Play works with each feature gate set to the opposite of its default.
func TestPlayWithGates(t *testing.T) {
	for gate, spec := range apps.GateSpecs() {
		_, err := foresee.Play(t.Context(), foresee.Question{
			Changed: untyped(t, cloneSet(1, "app:v1", "1", v1beta1.InPlaceIfPossible, "1"), "CloneSet"), Now: now(), ManagerNamespace: "kruise-system",
			Gates: map[apps.Gate]bool{gate: !spec.Default},
		})
		if err != nil {
			t.Errorf("gate %s: %v", gate, err)
		}
	}
}
