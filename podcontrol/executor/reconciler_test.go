package executor_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/internal/clustertest"
	"github.com/workloadkit/workloadkit/ownercache"
)

// TestReconciler runs the reconciler of the Example: creation of Pods and an update in place.
func TestReconciler(t *testing.T) {
	ctx, mgr := t.Context(), clustertest.New()
	r, err := newReconciler(ctx, mgr, ownercache.Options{NoBarrier: true}) // there is no API server
	if err != nil {
		t.Fatal(err)
	}
	one := int32(1)
	web := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	web.Spec.Replicas = &one
	web.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	key := client.ObjectKeyFromObject(web)
	pass := func() (images []string) {
		t.Helper()
		err := mgr.Deliver(ctx)
		_, failed := r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
		pods := &corev1.PodList{}
		if err := errors.Join(err, failed, mgr.Deliver(ctx), mgr.GetAPIReader().List(ctx, pods)); err != nil {
			t.Fatal(err)
		}
		for i := range pods.Items {
			images = append(images, pods.Items[i].Spec.Containers[0].Image)
		}
		return images
	}
	if err := mgr.Create(ctx, web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"app:v1"}, pass()); diff != "" {
		t.Errorf("a pass writes the revision and creates the Pod (-want +got):\n%s", diff)
	}
	if err := mgr.Get(ctx, key, web); err != nil {
		t.Fatal(err)
	}
	web.Generation, web.Spec.Template.Spec.Containers[0].Image = 2, "app:v2"
	if err := mgr.Update(ctx, web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"app:v2"}, pass()); diff != "" {
		t.Errorf("a pass writes the next revision and updates the Pod in place (-want +got):\n%s", diff)
	}
}
