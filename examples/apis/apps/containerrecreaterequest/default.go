// Package containerrecreaterequest answers "what does a ContainerRecreateRequest say where a user has left a field
// out?"
package containerrecreaterequest

import "github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"

// DefaultFailurePolicy is the default of OpenKruise 1.9.
const DefaultFailurePolicy = v1beta1.ContainerRecreateRequestFailurePolicyFail

// Default sets the fields left out by the user, without lookups. Default is idempotent.
func Default(obj *v1beta1.ContainerRecreateRequest) {
	if obj.Spec.Strategy == nil {
		obj.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{}
	}
	if obj.Spec.Strategy.FailurePolicy == "" {
		obj.Spec.Strategy.FailurePolicy = DefaultFailurePolicy
	}
}
