// Package v1alpha1 answers "what does a policy look like to users of the older API?"
//
// Two annotations stand for fields of v1beta1, and there is no ignoredPodSelector. JSON names are those of OpenKruise
// 1.9.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is policy.kruise.io/v1alpha1. Do not modify GroupVersion.
var GroupVersion = schema.GroupVersion{Group: "policy.kruise.io", Version: "v1alpha1"}

// AddToScheme registers the types of v1alpha1.
func AddToScheme(scheme *runtime.Scheme) error {
	addKnownTypes(scheme)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
