// Package predownload decides which images of a rollout are pulled in advance, and in which order of Nodes.
//
// A kind reads its settings with [Read] when it resolves a spec. In each reconciliation, [Decide] compares the template
// of the update revision with the templates of the revisions of outdated Pods, and returns a [Plan]: an ImagePullJob for
// each changed image, which pulls the image on the Nodes of outdated Pods. The Nodes of the next batch come first. While
// a batch is updated, the Nodes of later batches already pull. When all Pods are at the update revision, the jobs are
// deleted.
//
// The decision is made once for a revision, and recorded in a label of the revision, as OpenKruise does. No image is
// pulled in advance if the rollout is too short, or if no outdated Pod can be updated in place, because a recreated
// Pod may run on another Node.
package predownload
