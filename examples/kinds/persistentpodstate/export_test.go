package persistentpodstate

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// SetupWithoutKinds is Setup with StatefulSets as the only workload kinds.
func SetupWithoutKinds(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	return setup(ctx, mgr, c, noKinds{}, options)
}

// noKinds provides no workload kinds besides StatefulSets.
type noKinds struct{}

func (noKinds) Served() []schema.GroupVersionKind { return nil }

func (noKinds) Get(schema.GroupKind, string, string) (*unstructured.Unstructured, bool) {
	return nil, false
}

func (noKinds) OnChange(func(schema.GroupKind, client.Object)) {}
