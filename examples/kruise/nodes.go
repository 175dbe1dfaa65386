package kruise

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeLabels returns a function for the labels of a Node, in memory.
func (p *Parts[O]) NodeLabels(ctx context.Context) func(name string) (map[string]string, bool) {
	return func(name string) (map[string]string, bool) {
		node := &corev1.Node{}
		err := p.Client.Get(ctx, client.ObjectKey{Name: name}, node)
		return node.Labels, err == nil
	}
}
