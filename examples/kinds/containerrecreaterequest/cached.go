package containerrecreaterequest

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// keepRequest keeps a request, and of its status what the controller reads: Nodes decide about the length of the rest.
// A write of the status replaces the whole status.
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
	// Lists in their former memory would be as large as before.
	s.ContainerRecreateStates, s.ContainerStatusSnapshot = slices.Clone(s.ContainerRecreateStates), slices.Clone(s.ContainerStatusSnapshot)
	s.Conditions = slices.Clone(s.Conditions)
}
