// Package revision answers "has the template changed, and which template was that Pod made from?".
//
// A workload keeps the history of its Pod template in ControllerRevisions. [History.Decide] compares the template of today with the
// history and says whether to keep the newest revision, to bring an older one back to the front (a rollback), or to write
// a new one. [History.Excess] says which old ones nobody needs any more. Both are pure; package revision/history writes.
//
// # Claim templates
//
// Which claims Pods of a revision have is no part of its data: a workload's claim templates change without a new revision. [History.RecordClaims]
// keeps them in an annotation, and [History.ClaimTemplatesAt] returns what a Pod that is made again at an earlier revision needs.
//
// # Equality
//
// Two templates are equal when they mean the same, not when their bytes agree: a new serializer that leaves out
// "creationTimestamp":null, a null that an API server dropped, an empty list where there was none, must never roll a
// single Pod. Bytes are compared first because that is cheap; when they differ, both sides are decoded by today's types
// and compared as a whole, so a field that a later version of the API adds is noticed without a change here. A caller whose
// templates are stored with defaults hands in the function that sets them, and a default that was added since the revision
// was written makes no difference either.
//
// # Bytes and names
//
// [Encode] writes the same bytes as Kubernetes' and OpenKruise's controllers of the 1.32 line do: sorted keys and
// "creationTimestamp":null in the template's metadata. Hashes and names are therefore the same as theirs, and a cluster
// that goes back to a controller which compares bytes finds nothing changed. [HashVersion] names this recipe. It is written
// beside the hash if the caller gives a key for it, so that a later recipe can tell old hashes from new ones instead of
// rolling Pods.
package revision
