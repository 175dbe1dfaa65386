// Package v1alpha1 answers "what does a workload look like to clients of the older version?"
//
// Objects are stored as v1beta1; package conversion converts both ways without loss. The fields of a CloneSet's update
// strategy are not nested here (there is no object rollingUpdate), claims of lost Pods are reused by default, and
// annotations and a label are used to set pre-download of images and excludePreparingDelete. A StatefulSet has fewer
// fields in this version, with the same meaning.
//
// EphemeralJobs do not exist in v1beta1: the objects are stored as v1alpha1, and controllers use the types of this
// package.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is apps.kruise.io/v1alpha1. Do not modify GroupVersion.
var GroupVersion = schema.GroupVersion{Group: "apps.kruise.io", Version: "v1alpha1"}

// AddToScheme registers the types of v1alpha1.
func AddToScheme(scheme *runtime.Scheme) error {
	addKnownTypes(scheme)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
