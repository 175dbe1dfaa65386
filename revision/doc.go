// Package revision answers "has the template changed, and from which template was a Pod made?".
//
// A workload keeps the history of its Pod template in ControllerRevisions. [History.Decide] compares the template of
// today with the history and says whether to keep the newest revision, to bring an older one back to the front (a
// rollback), or to write a new revision. [History.Excess] returns old revisions that nobody needs any more. Both
// methods are pure; package revision/history writes.
//
// # Claim templates
//
// The claims of Pods are no part of a revision's data: a workload's claim templates change without a new revision.
// [History.RecordClaims] keeps claim templates in an annotation, and [History.ClaimTemplatesAt] returns the templates
// for a Pod made again at an earlier revision.
//
// # Equality
//
// Two templates are equal when they mean the same, not when their bytes agree: a new serializer without
// "creationTimestamp":null, a null dropped by an API server, or an empty list in place of none must never roll a single
// Pod. Bytes are compared first because comparing bytes is cheap. If the bytes differ, both sides are decoded by
// today's types and compared as a whole, so a field of a later API version is noticed without a change of code. A
// caller with defaulted templates hands in the defaulting function, and then a default newer than the revision makes no
// difference either.
//
// # Bytes and names
//
// [Encode] writes the same bytes as Kubernetes' and OpenKruise's controllers of the 1.32 line do: sorted keys and
// "creationTimestamp":null in the template's metadata. Hashes and names are therefore the same as theirs, and a cluster
// back under a controller with a comparison of bytes sees no change. [HashVersion] names the recipe. A revision carries
// HashVersion beside the hash if the caller gives a key, so a later recipe can tell old hashes from new hashes instead
// of rolling Pods.
package revision
