package containerrecreaterequest

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// keepRequest keeps in the cache, of a request's status, only the fields that the controller reads, because Nodes
// determine the size of the status. A write of the status replaces the whole status, so no field that is missing in the
// cache survives a write.
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
