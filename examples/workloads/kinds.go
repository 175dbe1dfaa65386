package workloads

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
)

// WatchKinds returns watches of the workload kinds that the ConfigMap kruise-configuration lists, whose Pods have
// ordinals. The ConfigMap is in the namespace configured. within is the namespace of the watched objects, or empty
// for all namespaces. Add the Watches to the manager as described at [Watch].
func WatchKinds(ctx context.Context, mgr ctrl.Manager, configured, within string) (*Watches, error) {
	list, err := FollowKinds(ctx, mgr, configured)
	if err != nil {
		return nil, err
	}
	return Watch(mgr, list, within, keepNumbers), nil
}

// FollowKinds returns the list of the workload kinds whose Pods have ordinals, from the ConfigMap
// kruise-configuration in a namespace, and keeps the list up to date.
func FollowKinds(ctx context.Context, mgr ctrl.Manager, namespace string) (*List, error) {
	return Follow(ctx, mgr, Source{
		Namespace: namespace, Name: apps.ConfigurationName,
		Parse: func(data map[string]string) ([]schema.GroupVersionKind, error) {
			return api.ParseKinds(data[apps.ConfigurationStatefulSetLikes])
		},
	})
}

// keepNumbers reduces an object to its metadata and the fields that determine the wanted ordinals. Users may write
// objects of any size, so the cache must not keep whole objects.
func keepNumbers(object any) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": whole.Object["apiVersion"], "kind": whole.Object["kind"], "metadata": whole.Object["metadata"]}}
	out.SetManagedFields(nil)
	if spec, ok := whole.Object["spec"].(map[string]any); ok {
		kept := map[string]any{}
		for _, field := range []string{"replicas", "ordinals", "reserveOrdinals"} {
			if value, ok := spec[field]; ok {
				kept[field] = value
			}
		}
		out.Object["spec"] = kept
	}
	return out, nil
}
