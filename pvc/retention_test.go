package pvc_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/pvc"
)

func reference(kind, name, uid string) metav1.OwnerReference {
	version := "v1"
	if kind != "Pod" {
		version = "example.com/v1"
	}
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid)}
}

func ownedBy(refs ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-3", OwnerReferences: refs}}
}

func controller(ref metav1.OwnerReference) metav1.OwnerReference {
	ref.Controller = new(true)
	return ref
}

func TestRetention(t *testing.T) {
	web, pod, other := reference("Web", "web", "uid-of-web"), reference("Pod", "web-3", "uid-web-3"), reference("Team", "a", "uid-a")
	member := newPod("web-3")
	for _, tc := range []struct {
		name      string
		retention pvc.Retention
		has       []metav1.OwnerReference
		pod       *corev1.Pod
		unwanted  bool
		want      []metav1.OwnerReference
		same      bool
	}{
		{name: "S-25 kept, wanted", pod: member, same: true},
		{name: "S-25 kept, unwanted", pod: member, unwanted: true, same: true},
		{name: "S-25 with the owner, wanted", retention: pvc.Retention{WithOwner: true}, pod: member, want: []metav1.OwnerReference{web}},
		{name: "S-25 with the owner, unwanted", retention: pvc.Retention{WithOwner: true}, pod: member, unwanted: true, want: []metav1.OwnerReference{web}},
		{name: "S-25 with the Pod, wanted", retention: pvc.Retention{WithPod: true}, pod: member, same: true},
		{name: "S-25 with the Pod, unwanted", retention: pvc.Retention{WithPod: true}, pod: member, unwanted: true, want: []metav1.OwnerReference{pod}},
		{name: "S-25 with both, wanted", retention: pvc.Retention{WithOwner: true, WithPod: true}, pod: member, want: []metav1.OwnerReference{web}},
		{
			name: "S-25 with both, unwanted: the Pod alone", retention: pvc.Retention{WithOwner: true, WithPod: true},
			has: []metav1.OwnerReference{web}, pod: member, unwanted: true, want: []metav1.OwnerReference{pod},
		},
		{
			name: "wanted again", retention: pvc.Retention{WithOwner: true, WithPod: true},
			has: []metav1.OwnerReference{pod}, pod: member, want: []metav1.OwnerReference{web},
		},
		{name: "the policy was taken back", has: []metav1.OwnerReference{web}, pod: member, want: []metav1.OwnerReference{}},
		{
			name: "references of others stay", retention: pvc.Retention{WithOwner: true},
			has: []metav1.OwnerReference{other, pod}, pod: member, want: []metav1.OwnerReference{other, web},
		},
		{
			name: "somebody else controls the claim", retention: pvc.Retention{WithOwner: true, WithPod: true},
			has: []metav1.OwnerReference{controller(other)}, pod: member, want: []metav1.OwnerReference{controller(other)}, same: true,
		},
		{
			name: "somebody else controls the claim, and the Pod is not wanted", retention: pvc.Retention{WithPod: true},
			has: []metav1.OwnerReference{controller(other)}, pod: member, unwanted: true, want: []metav1.OwnerReference{controller(other)}, same: true,
		},
		{
			name: "the owner controls the claim", retention: pvc.Retention{WithPod: true},
			has: []metav1.OwnerReference{controller(web)}, pod: member, unwanted: true, want: []metav1.OwnerReference{pod},
		},
		{
			name: "an earlier Pod controls the claim", has: []metav1.OwnerReference{controller(reference("Pod", "web-3", "earlier"))}, pod: member,
			want: []metav1.OwnerReference{},
		},
		{name: "settled", retention: pvc.Retention{WithOwner: true}, has: []metav1.OwnerReference{web}, pod: member, want: []metav1.OwnerReference{web}, same: true},
		{
			name: "an earlier Pod, and the policy was taken back", has: []metav1.OwnerReference{reference("Pod", "web-3", "earlier")},
			want: []metav1.OwnerReference{},
		},
		{
			name: "an earlier Pod, and another uses the claim", retention: pvc.Retention{WithPod: true},
			has: []metav1.OwnerReference{reference("Pod", "web-3", "earlier"), reference("Pod", "web-4", "another")}, pod: member,
			want: []metav1.OwnerReference{reference("Pod", "web-4", "another")},
		},
		{
			name: "an earlier Pod, and a later one is not wanted", retention: pvc.Retention{WithPod: true},
			has: []metav1.OwnerReference{reference("Pod", "web-3", "earlier")}, pod: member, unwanted: true, want: []metav1.OwnerReference{pod},
		},
		{name: "no Pod", retention: pvc.Retention{WithOwner: true, WithPod: true}, unwanted: true, has: []metav1.OwnerReference{web}, want: []metav1.OwnerReference{}},
		{name: "no Pod, and one is wanted", retention: pvc.Retention{WithOwner: true, WithPod: true}, want: []metav1.OwnerReference{web}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			claim := ownedBy(tc.has...)
			before := claim.DeepCopy()
			got, differ := tc.retention.Owners(claim, web, "web-3", tc.pod, !tc.unwanted)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if differ == tc.same {
				t.Errorf("differ = %t", differ)
			}
			if diff := cmp.Diff(before, claim); diff != "" {
				t.Errorf("the claim was modified (-want +got):\n%s", diff)
			}
		})
	}
}

// TestShared: a claim that another owner's Pods use is not deleted with any Pod or owner, is not resized, and loses
// its references to owner and Pod.
func TestShared(t *testing.T) {
	web, pod, team := reference("Web", "web", "uid-of-web"), reference("Pod", "web-3", "uid-web-3"), reference("Team", "a", "uid-a")
	claim := ownedBy(web, team, pod)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	for _, shared := range []bool{false, true} {
		n := pvc.Numbered{
			Templates: []corev1.PersistentVolumeClaim{template}, Owner: web, Retention: &pvc.Retention{WithOwner: true, WithPod: true},
			Claim:  func(string) (*corev1.PersistentVolumeClaim, bool) { return claim, true },
			Shared: func(*corev1.PersistentVolumeClaim) bool { return shared },
		}
		want := [][]metav1.OwnerReference{{team, pod}}
		if shared {
			want = [][]metav1.OwnerReference{{team}}
		}
		var got [][]metav1.OwnerReference
		for _, owned := range n.Owned("web-3", newPod("web-3"), false) {
			got = append(got, owned.Owners)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("shared %t, owners (-want +got):\n%s", shared, diff)
		}
		sizes := n.Sizes("web-3")
		if stuck := errors.Is(sizes.Stuck, pvc.ClaimOfAnother); stuck != shared || len(sizes.Small) == 1 == shared {
			t.Errorf("shared %t: small %v, stuck %v", shared, sizes.Small, sizes.Stuck)
		}
	}
}

func TestIsStale(t *testing.T) {
	for _, tc := range []struct {
		name string
		has  []metav1.OwnerReference
		uid  types.UID
		want bool
	}{
		{name: "nobody's"},
		{name: "the Pod's own", has: []metav1.OwnerReference{reference("Pod", "web-3", "a")}, uid: "a"},
		{name: "S-26 an earlier Pod's", has: []metav1.OwnerReference{reference("Pod", "web-3", "a")}, uid: "b", want: true},
		{name: "S-26 an earlier Pod's, while there is none", has: []metav1.OwnerReference{reference("Pod", "web-3", "a")}, want: true},
		{name: "another Pod's", has: []metav1.OwnerReference{reference("Pod", "web-4", "a")}},
		{name: "an owner that is called like the Pod", has: []metav1.OwnerReference{reference("Web", "web-3", "a")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pvc.IsStale(ownedBy(tc.has...), "web-3", tc.uid); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
