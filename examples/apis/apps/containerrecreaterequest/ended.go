package containerrecreaterequest

import "github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"

// HasEnded reports whether there is nothing more to do for an agent. An unknown phase is an end, too.
func HasEnded(status *v1beta1.ContainerRecreateRequestStatus) bool {
	switch status.Phase {
	case "", v1beta1.ContainerRecreateRequestPending, v1beta1.ContainerRecreateRequestRecreating:
		return status.CompletionTime != nil
	default:
		return true
	}
}
