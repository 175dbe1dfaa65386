package launchpriority

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/examples/kruise"
)

// TestBarrierMemory: if users have added keys to a ConfigMap, the process remembers only the keys that containers
// need.
func TestBarrierMemory(t *testing.T) {
	order, err := kruise.LaunchOrder()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().Build()
	r := &Reconciler{order: order, client: c, live: c, events: record.NewFakeRecorder(99), options: kruise.Options{}.Complete(), barriers: map[types.NamespacedName]barrier{}}
	ctx := t.Context()
	const n = 20
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("u%d", i))}}
		for j := range 2 {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", j), Env: []corev1.EnvVar{{Name: "KRUISE_CONTAINER_PRIORITY", Value: fmt.Sprint(j)}}})
		}
		if _, err := order.Inject(pod, ""); err != nil {
			t.Fatal(err)
		}
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: order.ConfigMapName(pod), UID: types.UID(fmt.Sprintf("cm%d", i)),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
			},
			Data: map[string]string{"junk": strings.Repeat("x", 1<<20-100)},
		}
		for _, o := range []client.Object{pod, cm} {
			if err := c.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(ctx, cm); err != nil { // the quota no longer counts the ConfigMap
			t.Fatal(err)
		}
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	for _, b := range r.barriers {
		for k, v := range b.opened {
			held += len(k) + len(v)
		}
	}
	if held > n*1024 {
		t.Errorf("%d Pods that run nowhere, and no ConfigMap: the manager holds %d bytes", n, held)
	}
}
