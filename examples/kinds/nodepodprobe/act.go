package nodepodprobe

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/node/probing"
)

// writeList creates, updates or deletes the NodePodProbe of a Node. This package calls a NodePodProbe a list, because
// a NodePodProbe lists the probes for the Node's Pods.
func (r *Reconciler) writeList(ctx context.Context, name string, list *v1alpha1.NodePodProbe, entries []probing.Entry) error {
	node, exists := r.nodes.Get("", name)
	if !exists {
		node = nil
	}
	wanted := wantedSpec(list, entries, r.options.Namespace)
	switch next(node, list, wanted) {
	case create:
		err := r.client.Create(ctx, &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: wanted})
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache will soon show the existing NodePodProbe
		}
		return err
	case update:
		return r.patchSpec(ctx, list, wanted)
	case remove:
		return r.remove(ctx, list)
	case leave:
	}
	return nil
}

// patchSpec replaces the spec of a NodePodProbe, unless the object has changed since it was read.
func (r *Reconciler) patchSpec(ctx context.Context, list *v1alpha1.NodePodProbe, wanted v1alpha1.NodePodProbeSpec) error {
	probes := wanted.PodProbes
	if probes == nil {
		probes = []v1alpha1.PodProbe{}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": list.UID, "resourceVersion": list.ResourceVersion},
		"spec":     map[string]any{"podProbes": probes},
	})
	if err != nil {
		return fmt.Errorf("probes of Node %s: %w", list.Name, err)
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: list.Name}}, client.RawPatch(types.MergePatchType, body)))
}

// remove deletes the NodePodProbe of a deleted Node, unless the API server has a new Node with the same name.
func (r *Reconciler) remove(ctx context.Context, list *v1alpha1.NodePodProbe) error {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := r.live.Get(ctx, client.ObjectKey{Name: list.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && next(&corev1.Node{ObjectMeta: node.ObjectMeta}, list, list.Spec) != remove {
		return nil
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, list, client.Preconditions{UID: &list.UID}))
}
