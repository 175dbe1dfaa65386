// Package predownload answers "which images does a rollout need soon, and on which Nodes first?".
//
// A kind reads its settings with [Read] when it resolves a spec. In each reconciliation, [Decide] compares the template
// of the update revision with the templates of the revisions of outdated Pods, and returns a [Plan]: an ImagePullJob for
// each changed image, which pulls the image on the Nodes of outdated Pods. The Nodes of the next batch come first. While
// a batch is updated, the Nodes of later batches already pull. When all Pods are at the update revision, the jobs are
// deleted.
//
// The decision is made once for a revision, and recorded in a label of the revision, as OpenKruise does. Nothing is
// pulled beforehand if the rollout would be over too soon, or if no outdated Pod can be updated in place: a recreated
// Pod may run on another Node.
package predownload
