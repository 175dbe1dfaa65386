package claimwriter_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/pvc"
)

// TestGrowWithoutAnnotations: if the given annotations are nil, Grow keeps the claim's annotations.
func TestGrowWithoutAnnotations(t *testing.T) {
	sized := func(size string) *corev1.PersistentVolumeClaim {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-0", UID: "uid"}}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		return claim
	}
	stored := sized("1Gi")
	stored.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "backup.example.com/keep": "true"}
	c := fake.NewClientBuilder().WithObjects(stored).Build()
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKeyFromObject(stored)
	if err := c.Get(t.Context(), key, claim); err != nil {
		t.Fatal(err)
	}
	if err := grow(t, c, pvc.Small{PersistentVolumeClaim: claim, Template: sized("2Gi")}, "spec", nil); err != nil {
		t.Fatal(err)
	}
	after := &corev1.PersistentVolumeClaim{}
	if err := c.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	if len(after.Annotations) != 2 {
		t.Errorf("Grow(..., nil) to %s leaves annotations %v of %v", after.Spec.Resources.Requests.Storage(), after.Annotations, claim.Annotations)
	}
}
