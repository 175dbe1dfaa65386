package containerrecreaterequest

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// keepRequest keeps in the cache a request with only those fields of its status that the controller reads, because
// Nodes determine the size of the status. A write of the status replaces the whole status.
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
	// The slices are cloned, because shortened slices would keep their memory.
	s.ContainerRecreateStates, s.ContainerStatusSnapshot = slices.Clone(s.ContainerRecreateStates), slices.Clone(s.ContainerStatusSnapshot)
	s.Conditions = slices.Clone(s.Conditions)
}
