package why

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientsfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/workloadkit/workloadkit/examples/cli/cause"
)

// TestForeignPods: other Pods whose controller the user may not read, or whose controller is of an unknown kind, do
// not hide the Pods of the object in question.
func TestForeignPods(t *testing.T) {
	pod := func(name, version, kind string, uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: version, Kind: kind, Name: "owner", UID: uid, Controller: new(true)},
		}}}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Group: "db.example.test", Version: "v1", Kind: "Cluster"}} {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	objects := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	var asked []string
	objects.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked = append(asked, action.GetResource().Resource)
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "owner", nil)
	})
	r := &reader{
		clients: clientsfake.NewClientset(
			pod("a", "db.example.test/v1", "Cluster", "c"), pod("b", "apps/v1", "ReplicaSet", "r"), pod("c", "apps/v1", "ReplicaSet", "r"), pod("web-0", "apps.kruise.io/v1beta1", "CloneSet", "w"),
		),
		objects: objects, mapper: mapper, parents: map[types.UID]*unstructured.Unstructured{},
	}
	web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"}}
	web.SetNamespace("shop")
	web.SetUID("w")
	f := cause.Facts{Object: web}
	if err := r.readPods(t.Context(), &f); err != nil || len(f.Pods) != 1 || f.Pods[0].Name != "web-0" {
		t.Errorf("%d Pods, %v", len(f.Pods), err)
	}
	if diff := cmp.Diff([]string{"replicasets"}, asked); diff != "" {
		t.Errorf("owners read (-want +got):\n%s", diff)
	}
}
