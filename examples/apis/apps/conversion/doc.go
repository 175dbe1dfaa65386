// Package conversion answers "how is a workload converted to its second API version, without losing a value?"
//
// A table of moves describes each kind: renamed fields, values of v1beta1 in annotations and labels of v1alpha1, and
// fields that v1alpha1 does not have ([JSON]). A new kind needs only a further table.
//
// Most fields exist in both versions. Conversion keeps the values of all remaining fields in an annotation of the
// converted object: [apps.AnnotationV1beta1Only] on v1alpha1 objects, [apps.AnnotationV1alpha1Only] on v1beta1 objects.
// Both keys are reserved: conversion drops an unreadable annotation, and an annotation on the wrong version.
//
// # The annotation
//
// The annotation's value is JSON such as
//
//	{"when":["ReCreate"],"fields":[{"path":["spec","updateStrategy","type"],"shown":"ReCreate","kept":"Blue"}]}
//
// An entry of "fields" says: a conversion back without the annotation would give the value "shown" at the path (no
// value, if "shown" is absent), but the original value is "kept". "when" has values of the original object on which the
// meaning of some fields depends: of a CloneSet and a DaemonSet the type of update (and the Pod update policy) for
// updateStrategy, of a SidecarSet the selector shown by v1beta1 for the namespaces. The annotation is written only if
// converting back would change something, and removed on use.
//
// # The merge rule
//
// A user may have edited the converted object. So a conversion back first ignores the annotation; then each field is
// restored if, and only if,
//
//   - the plain result has "shown" at its path, so nobody touched the values behind the field; and
//   - for fields that depend on "when", the plain result has the same "when"; and
//   - the kind's table has the path, and the API server would accept the value: any user may write the annotation.
//
// All remaining entries of the annotation are outdated and dropped: the user's edit takes precedence.
//
// # Values as written
//
// Conversion moves values as written: templates may hold fields unknown to the Go types, or invalid values, and a
// "kubectl apply" of an unchanged file with empty values such as false or [] must change nothing.
//
// # Room
//
// Annotations hold 256 KiB. Beyond the limit, empty values and then the longest fields are left out of the annotation:
// every stored object must be convertible, because a single failing object would make every list fail. [Check] returns
// the fields that would be lost.
//
// # Meaning of the keys of v1alpha1
//
// A v1alpha1 object has an annotation or label in place of a field exactly if the field has a value, so no key shows a
// value that is not in effect. A value that the field cannot hold, such as a percentage of ready Pods, stays in the
// annotation. An empty inPlaceUpdateStrategy of a CloneSet is left out in v1alpha1, and a missing inPlaceUpdateStrategy
// becomes {}, the default of the two in-place policies. A SidecarSet's spec.strategy, from OpenKruise 0.1, is dropped:
// nothing reads the field.
package conversion
