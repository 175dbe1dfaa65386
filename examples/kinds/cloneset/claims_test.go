package cloneset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// TestMissingClaims: missing claims of a Pod that has not started are created again. Missing claims of a running Pod,
// and claims that no Pod uses, are not created.
func TestMissingClaims(t *testing.T) {
	w := &drawn{cs: drawCloneSet(&dice{})}
	w.cs.Spec.VolumeClaimTemplates = claimTemplates("data", "logs")
	pod := func(id string, phase corev1.PodPhase, claims ...string) *corev1.Pod {
		out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-" + id, Labels: map[string]string{apps.LabelInstanceID: id, "app": "web", apps.LabelRevision: "web-1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.cs, cloneSetKind())},
		}}
		out.Status.Phase = phase
		for _, name := range claims {
			out.Spec.Volumes = append(out.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
		return out
	}
	going := pod("e", corev1.PodPending, "data-web-e")
	going.DeletionTimestamp = ptr.To(metav1.NewTime(decidedAt))
	leaving := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-d", DeletionTimestamp: ptr.To(metav1.NewTime(decidedAt))}}
	for _, object := range []*corev1.Pod{
		pod("a", corev1.PodPending, "data-web-a", "logs-web-a"), pod("b", corev1.PodPending, "data-web-b", "shared"),
		pod("c", corev1.PodRunning, "data-web-c"), pod("d", corev1.PodPending, "data-web-d"), going,
	} {
		w.have = append(w.have, object)
	}
	w.have = append(w.have, leaving)
	o := w.observed(t, false)
	got := map[string]string{}
	for _, claim := range decide(o).missing {
		got[claim.Name] = claim.Labels[apps.LabelInstanceID]
	}
	want := map[string]string{"data-web-a": "a", "logs-web-a": "a", "data-web-b": "b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missing claims (-want +got):\n%s", diff)
	}
}

// TestClaimTemplatesCount: with InPlaceOnly, no Pod is recreated because of changed claim templates.
func TestClaimTemplatesCount(t *testing.T) {
	for _, tc := range []struct {
		gate   bool
		policy v1beta1.CloneSetPodUpdatePolicy
		want   bool
	}{
		{true, v1beta1.InPlaceOnly, false},
		{true, v1beta1.InPlaceIfPossible, true},
		{true, v1beta1.ReCreate, true},
		{true, "", true},
		{false, v1beta1.InPlaceIfPossible, false},
	} {
		cs := drawCloneSet(&dice{})
		cs.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = tc.policy
		options := Options{Options: kruise.Options{Gates: map[apps.Gate]bool{apps.GateRecreatePodWhenChangeVCT: tc.gate}}}
		if got := claimTemplatesCount(cs, options); got != tc.want {
			t.Errorf("gate %t, policy %q: they count %t", tc.gate, tc.policy, got)
		}
	}
}
