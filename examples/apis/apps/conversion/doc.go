// Package conversion answers "how is a workload converted to its second API version, without losing a value?"
//
// A table of moves describes each kind: renamed fields, values of v1beta1 in annotations and labels of v1alpha1, and
// fields that v1alpha1 does not have ([JSON]). To add a kind, a further table is enough.
//
// Most fields exist in both versions. Conversion keeps the values of all remaining fields in an annotation of the
// converted object: [apps.AnnotationV1beta1Only] on v1alpha1 objects, [apps.AnnotationV1alpha1Only] on v1beta1 objects.
// Both keys are reserved: an annotation that cannot be read, or that is on an object of the wrong version, is dropped.
//
// # The annotation
//
// The annotation's value is JSON such as
//
//	{"when":["ReCreate"],"fields":[{"path":["spec","updateStrategy","type"],"shown":"ReCreate","kept":"Blue"}]}
//
// An entry of "fields" says that a conversion back without the annotation would give the value "shown" at the path (no
// value if "shown" is missing), but that the original value is "kept". "when" contains values of the original object on
// which the meaning of some fields depends. For updateStrategy of a CloneSet or DaemonSet, these are the type of update
// and the Pod update policy; for the namespaces of a SidecarSet, the selector that v1beta1 shows. The annotation is
// written only if converting back would change something, and is removed when it is used.
//
// # The merge rule
//
// A user may have edited the converted object. So a conversion back first ignores the annotation, and then restores
// each field if all of these conditions are met:
//
//   - the object converted without the annotation has "shown" at the path, so nobody has changed the field; and
//   - for fields that depend on "when", the object converted without the annotation has the same "when"; and
//   - the kind's table contains the path, and the API server would accept the value, because any user may write the
//     annotation.
//
// All other entries of the annotation are outdated and dropped: the user's edit takes precedence.
//
// # Values as written
//
// Conversion copies values as written, because templates may contain fields that the Go types lack, or invalid values.
// A "kubectl apply" of an unchanged file with empty values such as false or [] must change nothing.
//
// # Size of the annotation
//
// Annotations can contain at most 256 KiB. If more would be needed, first empty values and then the longest fields are
// left out of the annotation. An error is not possible: every stored object must be convertible, because a single
// object that cannot be converted would make every list fail. [Check] returns the fields that would be lost.
//
// # Meaning of the keys of v1alpha1
//
// A v1alpha1 object has an annotation or label in place of a field if, and only if, the field has a value; so no key
// shows a value that is not in effect. A value that the field does not allow, such as a percentage of ready Pods, stays
// in the annotation. An empty inPlaceUpdateStrategy of a CloneSet is left out in v1alpha1, and a missing
// inPlaceUpdateStrategy becomes {}, the default of the two in-place policies. spec.strategy of a SidecarSet, a field of
// OpenKruise 0.1, is dropped, because nothing reads the field.
package conversion
