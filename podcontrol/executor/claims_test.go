package executor_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/pvc"
)

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	w.must(w.Create(w.t.Context(), claim))
	return claim
}

// template returns a claim template with the given size.
func (*world) template(size string) *corev1.PersistentVolumeClaim {
	template := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return template
}

// TestDeleteClaims: after a refused deletion, DeleteClaims deletes the other claims and reports the refusal.
func TestDeleteClaims(t *testing.T) {
	w := newWorld(t)
	first, second := w.claim("data-a"), w.claim("data-b")
	w.Answer = refuses("delete PersistentVolumeClaim data-a")
	if err := w.begin().DeleteClaims(t.Context(), []*corev1.PersistentVolumeClaim{first, second}); !apierrors.IsForbidden(err) {
		t.Errorf("DeleteClaims = %v", err)
	}
	w.check("deleted", []string{"delete PersistentVolumeClaim data-a", "delete PersistentVolumeClaim data-b"}, []string{"ClaimDeleteFailed data-a"})
}

// TestGrowClaims: GrowClaims reports each claim that was resized and each claim whose resize was refused.
func TestGrowClaims(t *testing.T) {
	w := newWorld(t)
	template := w.template("2Gi")
	small := []pvc.Small{{PersistentVolumeClaim: w.claim("data-a"), Template: template}, {PersistentVolumeClaim: w.claim("data-b"), Template: template}}
	if err := w.begin().GrowClaims(t.Context(), small[:1], nil, nil); err != nil {
		t.Errorf("GrowClaims = %v", err)
	}
	w.check("grown", []string{"patch PersistentVolumeClaim data-a"}, []string{"ClaimGrown data-a"})
	w.Answer = refuses("patch PersistentVolumeClaim data-b")
	if err := w.begin().GrowClaims(t.Context(), small[1:], nil, nil); !apierrors.IsForbidden(err) {
		t.Errorf("GrowClaims = %v", err)
	}
	w.check("refused", []string{"patch PersistentVolumeClaim data-b"}, []string{"ClaimGrowthFailed data-b"})
}
