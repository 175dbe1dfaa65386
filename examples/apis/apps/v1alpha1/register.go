// Package v1alpha1 answers "what does a workload look like to clients of the older version?"
//
// Objects are stored as v1beta1; package conversion converts both ways without loss. Pod updates of a CloneSet are flat
// here (no rollingUpdate object), claims of lost Pods are reused by default, and pre-download of images and
// excludePreparingDelete are set through annotations and a label. A StatefulSet has fewer fields here, and the same
// meaning.
//
// An EphemeralJob has no v1beta1: the objects are stored as v1alpha1, and controllers read and write the types here.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is apps.kruise.io/v1alpha1. Treat GroupVersion as a constant.
var GroupVersion = schema.GroupVersion{Group: "apps.kruise.io", Version: "v1alpha1"}

// AddToScheme registers the types of v1alpha1.
func AddToScheme(scheme *runtime.Scheme) error {
	addKnownTypes(scheme)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
