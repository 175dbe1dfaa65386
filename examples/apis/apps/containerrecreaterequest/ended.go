package containerrecreaterequest

import "github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"

// HasEnded reports whether the node agent has nothing more to do for the request. A request with an unknown phase
// counts as ended.
func HasEnded(status *v1beta1.ContainerRecreateRequestStatus) bool {
	switch status.Phase {
	case "", v1beta1.ContainerRecreateRequestPending, v1beta1.ContainerRecreateRequestRecreating:
		return status.CompletionTime != nil
	default:
		return true
	}
}
