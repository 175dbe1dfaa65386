package containerrecreaterequest

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// keepRequest copies into the cached object only those fields of a request's status that the controller reads,
// because node agents determine the size of the whole status. The controller replaces the whole status, so a write
// removes the fields that are missing in the cache.
func keepRequest(kept, found client.Object) {
	into, ok := kept.(*v1beta1.ContainerRecreateRequest)
	from, same := found.(*v1beta1.ContainerRecreateRequest)
	if !ok || !same {
		return
	}
	*into = *from
	into.ManagedFields = nil
	s := &into.Status
	trim(s, into.Spec.Containers)
	// The slices are cloned, because a shortened slice would keep the memory of the whole slice.
	s.ContainerRecreateStates, s.ContainerStatusSnapshot = slices.Clone(s.ContainerRecreateStates), slices.Clone(s.ContainerStatusSnapshot)
	s.Conditions = slices.Clone(s.Conditions)
}
