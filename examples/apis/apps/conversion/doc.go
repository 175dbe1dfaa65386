// Package conversion answers "how does a workload look in the second version, and how does nothing get lost?"
//
// A CloneSet looks different in the two versions, and the following sections describe CloneSets. A v1alpha1 StatefulSet
// is a v1beta1 StatefulSet without some fields. Conversion keeps the missing fields in the same way ("StatefulSets").
//
// Most fields have a place in both versions. Conversion keeps the remaining fields in an annotation of the converted
// object: [apps.AnnotationV1beta1Only] on v1alpha1 objects, [apps.AnnotationV1alpha1Only] on v1beta1 objects. Both keys
// are reserved: conversion drops an unreadable annotation, and an annotation on the wrong version.
//
// # The annotation
//
// The annotation's value is JSON such as
//
//	{"when":["ReCreate"],"fields":[{"path":["spec","updateStrategy","type"],"shown":"ReCreate","kept":"Blue"}]}
//
// Each field says: converting the object back gives "shown" at this path (absent means no value there), the truth is
// "kept". "when" has the type of update and the Pod update policy of the object converted back. The annotation is
// written only if converting back would change something, and removed on use.
//
// # The merge rule
//
// The object may have been edited in the version shown. So converting back first ignores the annotation; then each
// field is restored if, and only if,
//
//   - the plain result has "shown" at its path, so nobody touched the values behind the field; and
//   - for paths under spec.updateStrategy, the plain result has the type and policy in "when".
//
// Everything else in the annotation is out of date and dropped: the edit wins. Foreign entries in the annotation are
// dropped, too.
//
// # Empty values
//
// An object is written by its Go type. The Go type leaves out false, 0, "", [] and {} wherever the value means the same
// as its absence. Conversion keeps empty values all the same, or each "kubectl apply" of a file with empty values would
// change the object. The note has the empty values in "empty", with their paths. An empty value returns if its path is
// free, the type has such a field, and the value still has no meaning. Empty values are the first to go for lack of
// room.
//
// # Room
//
// Annotations hold 256 KiB. Beyond the limit, the longest fields are left out of the annotation: every stored object
// can be converted, or a single object would keep everybody from listing objects. [Check] returns the fields to be
// lost.
//
// # Meaning of the keys of v1alpha1
//
// Three annotations and a label stand for fields of v1beta1. A v1alpha1 object shows the keys exactly when the field
// has a value, so the keys never claim a value not in effect. A value without a place in the field, such as a
// percentage of ready Pods, stays unchanged. An empty inPlaceUpdateStrategy is shown as none, and none becomes the
// default {} of the two in-place policies.
//
// # BroadcastJobs
//
// A BroadcastJob is the same in both versions.
//
// # ContainerRecreateRequests
//
// Two fields of the status of v1beta1 are annotations in v1alpha1: the snapshot of containers, and the time of the
// condition PreRecreateGrace. Each version has the values in its own place alone. An unreadable annotation stays an
// annotation. Notes keep the rest: further conditions, and the spelling of a value. Notes use the places as paths, and
// have no "when".
//
// # DaemonSets
//
// A DaemonSet looks alike in both versions, with three differences. scaleStrategy.partitionedScaling of v1beta1 is an
// annotation in v1alpha1, shown exactly when the field is true. The rollingUpdateType Surging of v1alpha1 is Standard
// in v1beta1, with the numbers as they are. The revision in the status has two names. Notes keep the rest as for a
// CloneSet; "when" is the type of update.
//
// # ResourceDistributions
//
// Two fields have different names: namespaceLabelSelector of v1alpha1 is namespaceSelector in v1beta1, and
// failedNamespace of its conditions failedNamespaces. Nothing is kept in an annotation.
//
// # PersistentPodStates
//
// A single field has two names, in two places: nodeTopologyKeys of v1alpha1 is keys in v1beta1. Nothing is kept in an
// annotation.
//
// # AdvancedCronJobs
//
// v1alpha1 has no template of ImageListPullJobs. A note keeps the template, and the template returns if v1alpha1 has
// none. A list of v1alpha1 stays readable with any content.
//
// # SidecarSets
//
// spec.namespace of v1alpha1 becomes the namespaceSelector in v1beta1 and replaces an existing selector. A note keeps
// both, and "when" is the selector shown by v1beta1: an edit of the selector wins. spec.customVersion of v1beta1 is a
// label in v1alpha1; values unfit for a label are in a note. spec.strategy of v1alpha1, from OpenKruise 0.1, is
// dropped: nothing reads the field.
//
// # PodUnavailableBudgets
//
// Two annotations of v1alpha1 stand for protectOperations and protectTotalReplicas of v1beta1. A v1alpha1 object shows
// the annotations exactly when the field has a value; a v1beta1 object keeps the annotations without a meaning. A note
// keeps ignoredPodSelector, which has no place in v1alpha1.
//
// # Schemaless fields
//
// Templates may hold fields unknown to the Go types, or invalid values. [JSON] works on serialised objects, reads only
// labels, annotations and the two strategies, and carries everything else over. Conversion webhooks should use JSON.
//
// # StatefulSets
//
// Fields of spec known only to v1beta1 move into [apps.AnnotationV1beta1Only] and back as written, valid or not. A
// field returns if v1alpha1 still lacks the field and the value has the type demanded by the API: any user may write
// the annotation.
package conversion
