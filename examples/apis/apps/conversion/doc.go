// Package conversion answers "how does a workload look in the other version, and how does nothing get lost?"
//
// A CloneSet looks different in the two versions, and is what the following is about. A StatefulSet of v1alpha1 is one of v1beta1
// without some fields, which are kept in the same way ("StatefulSets").
//
// Most fields have a place in both versions. What has none is kept in one annotation of the converted
// object: [apps.AnnotationV1beta1Only] on v1alpha1 objects, [apps.AnnotationV1alpha1Only] on v1beta1 objects. Both keys
// are reserved: an annotation that does not parse is dropped, and so is one on the version it does not belong to.
//
// # The annotation
//
// Its value is JSON such as
//
//	{"when":["ReCreate"],"fields":[{"path":["spec","updateStrategy","type"],"shown":"ReCreate","kept":"Blue"}]}
//
// Each field says: converting the object back gives "shown" at this path (absent means no value there), the truth is
// "kept". "when" is what converting back gave for the type of update and the Pod update policy. The annotation is
// written only if converting back would change something, and removed when it is used.
//
// # The merge rule
//
// The object may have been edited in the version shown. So converting back first ignores the annotation; then each
// field is restored if, and only if,
//
//   - the plain result has "shown" at its path, so nobody touched what it depends on; and
//   - for paths under spec.updateStrategy, the plain result has the type and policy in "when".
//
// Everything else in the annotation is out of date and dropped: the edit wins. So is what this package does not write there.
//
// # Empty values
//
// An object is written as its Go type has it, which leaves false, 0, "", [] and {} out where they mean what nothing means. They stay all the same, or
// each "kubectl apply" of a file that has them would change the object: the note has them in "empty", with their paths, and they come back where
// nothing is now, where the type has such a field, and where they still mean nothing. They are the first to go where there is no room.
//
// # Room
//
// Annotations hold 256 KiB. Where that is not enough, the longest fields are left out of the annotation: whatever is stored can
// be converted, or one object would keep everybody from listing theirs. [Check] says what would be lost.
//
// # Meaning of the keys of v1alpha1
//
// Three annotations and a label stand for fields of v1beta1. A v1alpha1 object shows them exactly when the field has a
// value, so they never claim what is not in effect; a value without a place in the field, such as a percentage of ready
// Pods, is left as it is. An inPlaceUpdateStrategy with nothing in it is shown as none, and none becomes
// the {} that the defaults give to the two in-place policies.
//
// # BroadcastJobs
//
// A BroadcastJob is the same in both versions.
//
// # ContainerRecreateRequests
//
// Two fields of the status of v1beta1 are annotations in v1alpha1: the snapshot of containers, and the time of the condition PreRecreateGrace.
// Each version has them in its own place alone. An annotation that does not parse stays an annotation. Notes keep the rest: other conditions, and
// how a value was spelled. They have the places for paths, and no "when".
//
// # DaemonSets
//
// A DaemonSet looks alike in both versions, but for three things. scaleStrategy.partitionedScaling of v1beta1 is an annotation in v1alpha1, which shows it
// exactly when it is true. The rollingUpdateType Surging of v1alpha1 is Standard in v1beta1, with the numbers as they are. The revision in
// the status has two names. Notes keep the rest as they do for a CloneSet; "when" is the type of update.
//
// # ResourceDistributions
//
// Two fields have other names: namespaceLabelSelector of v1alpha1 is namespaceSelector in v1beta1, and failedNamespace of its conditions
// failedNamespaces. Nothing is kept in an annotation.
//
// # PersistentPodStates
//
// One field has another name, in two places: nodeTopologyKeys of v1alpha1 is keys in v1beta1. Nothing is kept in an annotation.
//
// # AdvancedCronJobs
//
// v1alpha1 has no template of ImageListPullJobs. A note keeps it, and it comes back where v1alpha1 has none; a list of v1alpha1 goes on to be readable
// whatever is in it.
//
// # SidecarSets
//
// spec.namespace of v1alpha1 is a namespaceSelector in v1beta1, where it takes the place of another one. A note keeps both, and "when" is the
// selector that v1beta1 shows: an edit of it wins. spec.customVersion of v1beta1 is a label in v1alpha1; what no label may hold is in a note.
// spec.strategy of v1alpha1, which OpenKruise 0.1 had, is dropped: nothing reads it.
//
// # PodUnavailableBudgets
//
// Two annotations of v1alpha1 stand for protectOperations and protectTotalReplicas of v1beta1. A v1alpha1 object shows them exactly when the
// field has a value; a v1beta1 object keeps them, and they mean nothing there. A note keeps ignoredPodSelector, for which v1alpha1 has no place.
//
// # Schemaless fields
//
// Templates may hold fields these Go types do not know, or values that make no sense. [JSON] works on serialised objects, looks at
// labels, annotations and the two strategies only, and carries everything else over; conversion webhooks should use it.
//
// # StatefulSets
//
// Fields of spec that only v1beta1 has move into [apps.AnnotationV1beta1Only] and back as they are written, whether or not they make sense.
// They come back where v1alpha1 still lacks them and where they have the type that the API demands: anybody may write the annotation.
package conversion
