package pvc_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
)

// sized returns a claim with a StorageClass, a requested size and the size of its volume.
func sized(class, wanted, has string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-0"}}
	if out.Spec.AccessModes = modes; class != "" {
		out.Spec.StorageClassName = &class
	}
	if wanted != "" {
		out.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(wanted)}
	}
	if has != "" {
		out.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	}
	return out
}

func TestGrowth(t *testing.T) {
	const once, many = corev1.ReadWriteOnce, corev1.ReadWriteMany
	type facts struct {
		Smaller, Grown bool
		Differs        []string
	}
	for _, tc := range []struct {
		name            string
		claim, template *corev1.PersistentVolumeClaim
		want            facts
	}{
		{name: "as it is wanted", claim: sized("fast", "1Gi", "1Gi", once), template: sized("fast", "1Gi", "", once), want: facts{Grown: true}},
		{name: "the same in other units", claim: sized("", "1Gi", "1Gi"), template: sized("", "1024Mi", ""), want: facts{Grown: true}},
		{name: "S-28 smaller", claim: sized("", "1Gi", "1Gi"), template: sized("", "2Gi", ""), want: facts{Smaller: true, Grown: true}},
		{name: "S-31 a template that shrank", claim: sized("", "2Gi", "2Gi"), template: sized("", "1Gi", ""), want: facts{Grown: true}},
		{name: "S-29 asked to grow", claim: sized("", "2Gi", "1Gi"), template: sized("", "2Gi", "")},
		{name: "not bound yet", claim: sized("", "2Gi", ""), template: sized("", "2Gi", "")},
		{
			name: "S-28 another class", claim: sized("slow", "1Gi", "1Gi", once), template: sized("fast", "1Gi", "", once),
			want: facts{Grown: true, Differs: []string{"spec.storageClassName slow fast"}},
		},
		{name: "no class in the template", claim: sized("slow", "1Gi", "1Gi"), template: sized("", "1Gi", ""), want: facts{Grown: true}},
		{
			name: "S-28 other modes", claim: sized("", "1Gi", "1Gi", once), template: sized("", "1Gi", "", once, many),
			want: facts{Grown: true, Differs: []string{"spec.accessModes ReadWriteOnce ReadWriteMany,ReadWriteOnce"}},
		},
		{name: "modes in another order", claim: sized("", "", "", once, many), template: sized("", "", "", many, once, once), want: facts{Grown: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := facts{Smaller: pvc.IsSmaller(tc.claim, tc.template), Grown: pvc.HasGrown(tc.claim)}
			for _, r := range pvc.Differences(tc.claim, tc.template) {
				if r.Code != pvc.ClaimDiffers || r.Object.Name != "data-web-0" {
					t.Errorf("reason %+v", r)
				}
				got.Differs = append(got.Differs, r.Path+" "+r.Old+" "+r.New)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMayGrow(t *testing.T) {
	class := func(allow *bool) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: allow}
	}
	for _, tc := range []struct {
		name, named string
		class       *storagev1.StorageClass
		refused     bool
	}{
		{name: "allowed", named: "fast", class: class(ptr.To(true))},
		{name: "S-28 forbidden", named: "fast", class: class(ptr.To(false)), refused: true},
		{name: "S-28, S-37 not said", named: "fast", class: class(nil), refused: true},
		{name: "S-28 no such class", named: "fast", refused: true},
		{name: "no name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pvc.Expands(tc.class); got != (tc.named != "" && !tc.refused) {
				t.Errorf("Expands = %t", got)
			}
			err := pvc.MayGrow("spec.volumeClaimTemplates[data]", tc.named, tc.class)
			if (err != nil) != tc.refused {
				t.Fatalf("got %v", err)
			}
			if r := (reason.Reason{}); tc.refused && (!errors.As(err, &r) || r.Code != pvc.ClassCannotExpand || r.Path == "" || r.Object.Name != "fast") {
				t.Errorf("got %+v", err)
			}
		})
	}
}

func TestNeedsRestart(t *testing.T) {
	pending := sized("", "2Gi", "1Gi")
	pending.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue}, {Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionFalse},
	}
	if pvc.NeedsRestart(pending) {
		t.Error("the condition is False")
	}
	if pending.Status.Conditions[1].Status = corev1.ConditionTrue; !pvc.NeedsRestart(pending) {
		t.Error("S-29: the file system waits for the Pod's restart")
	}
}
