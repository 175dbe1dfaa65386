// Package v1beta1 answers "what does a policy look like, as stored?"
//
// v1beta1 is the stored version, the hub of all conversions, and the only version that the controller uses. JSON names
// are those of OpenKruise 1.9.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is policy.kruise.io/v1beta1. Do not modify GroupVersion.
var GroupVersion = schema.GroupVersion{Group: "policy.kruise.io", Version: "v1beta1"}

// AddToScheme registers the types of v1beta1.
func AddToScheme(scheme *runtime.Scheme) error {
	addKnownTypes(scheme)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
