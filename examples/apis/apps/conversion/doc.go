// Package conversion answers "how does a workload look in the second version, and how does nothing get lost?"
//
// A table of moves describes each kind: renamed fields, values of v1beta1 in annotations and labels of v1alpha1, and
// fields without a place in v1alpha1 ([JSON]). A kind to come is a table more.
//
// Most fields have a place in both versions. Conversion keeps the rest in an annotation of the converted object:
// [apps.AnnotationV1beta1Only] on v1alpha1 objects, [apps.AnnotationV1alpha1Only] on v1beta1 objects. Both keys are
// reserved: conversion drops an unreadable annotation, and an annotation on the wrong version.
//
// # The annotation
//
// The annotation's value is JSON such as
//
//	{"when":["ReCreate"],"fields":[{"path":["spec","updateStrategy","type"],"shown":"ReCreate","kept":"Blue"}]}
//
// Each field says: converting the object back gives "shown" at this path (absent means no value there), the truth is
// "kept". "when" has the values that decide the meaning of some fields of the object converted back: of a CloneSet and
// a DaemonSet the type of update (and the Pod update policy) for updateStrategy, of a SidecarSet the selector shown by
// v1beta1 for the namespaces. The annotation is written only if converting back would change something, and removed on
// use.
//
// # The merge rule
//
// The object may have been edited in the version shown. So converting back first ignores the annotation; then each
// field is restored if, and only if,
//
//   - the plain result has "shown" at its path, so nobody touched the values behind the field; and
//   - for fields that depend on "when", the plain result has the same "when"; and
//   - the kind's table has the path, and the API server would accept the value: any user may write the annotation.
//
// Everything else in the annotation is out of date and dropped: the edit wins.
//
// # Values as written
//
// Conversion moves values as written: templates may hold fields unknown to the Go types, or invalid values, and a
// "kubectl apply" of an unchanged file with empty values such as false or [] must change nothing.
//
// # Room
//
// Annotations hold 256 KiB. Beyond the limit, empty values and then the longest fields are left out of the annotation:
// every stored object can be converted, or a single object would keep everybody from listing objects. [Check] returns
// the fields to be lost.
//
// # Meaning of the keys of v1alpha1
//
// A v1alpha1 object shows the annotations and labels in place of fields exactly when the field has a value, so the keys
// never claim a value not in effect. A value without a place in the field, such as a percentage of ready Pods, stays
// unchanged. An empty inPlaceUpdateStrategy of a CloneSet is shown as none, and none becomes the default {} of the two
// in-place policies. A SidecarSet's spec.strategy, from OpenKruise 0.1, is dropped: nothing reads the field.
package conversion
