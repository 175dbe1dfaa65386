// Package revision answers "has the template changed, and from which template was a Pod made?".
//
// A workload stores the history of its Pod template in ControllerRevisions. [History.Decide] compares the present
// template with the history and says whether to keep the newest revision, to make an older revision the newest again
// (a rollback), or to write a new revision. [History.Excess] returns old revisions that are no longer needed. Both
// methods are pure; package revision/history sends the writes.
//
// # Claim templates
//
// Claim templates are not part of a revision's data: if a workload's claim templates change, no new revision is made.
// [History.RecordClaims] stores claim templates in an annotation, and [History.ClaimTemplatesAt] returns the templates
// for a Pod that is recreated at an earlier revision.
//
// # Equality
//
// Two templates are equal if they mean the same, even if their bytes differ. For example, a rollout must not begin
// because a new serializer omits "creationTimestamp":null, because an API server drops a null, or because an empty
// list replaces a missing list. Bytes are compared first because comparing bytes is cheap. If the bytes differ, both
// templates are decoded with the present Go types and compared completely, so a field of a later API version is
// compared without a change of code. A caller whose templates are defaulted passes the defaulting function, so that a
// default added after the revision was written makes no difference either.
//
// # Bytes and names
//
// [Encode] writes the same bytes as the controllers of Kubernetes 1.32 and OpenKruise do: sorted keys, and
// "creationTimestamp":null in the template's metadata. Hashes and names are therefore the same as with these
// controllers. If a cluster returns to a controller that compares bytes, the controller finds no change.
// [HashVersion] is the version of this encoding. If the caller configures an annotation, a revision has HashVersion
// in addition to the hash. A later version of the package with another encoding can then recognise old hashes, and
// does not cause a rollout.
package revision
