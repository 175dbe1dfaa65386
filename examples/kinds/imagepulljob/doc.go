// Package imagepulljob is the reference controller for apps.kruise.io ImagePullJobs, which pull an image on Nodes before
// Pods need the image.
//
// A reconcile of a job has four steps: observe, decide, act, report. The job claims its image in the NodeImages of some
// Nodes at a time, the agents of these Nodes pull and report, and the job counts the answers. The rules are those of
// package imagepull, the function resolve parses and validates each spec once, and the function decide decides what to
// do; resolve and decide are pure.
//
// # Nodes
//
// The Nodes are selected by name, by label, or by the Pods on the Nodes. Nodes begin in the order of
// spec.selector.names or, for all other selectors, in the order of the annotation workloadkit.io/pull-order, and then
// by name. A Node that is not ready waits, and the condition Waiting names the Node. The status says why Nodes have
// failed.
//
// # Kubelets
//
// By the annotation workloadkit.io/pull-through, kubelets pull in place of agents: each Node gets a Pod with the image as
// an image volume (package kubeletpull). The Pods carry all state in an annotation and in their own status, so neither
// the job's status nor a NodeImage has a field for such pulls. Pods of Nodes that cannot pull now are left alone. After
// the end of the job, Pods hold the image for as long as a claim in a NodeImage would stay. A change of the annotation in
// a running job releases claims and copies of Secrets, or deletes the Pods.
//
// # Changes
//
// The image and the selectors of a running job may be changed: the claims for the earlier image, and the claims of
// Nodes that are not selected any more, are released. Admission refuses other changes of a running job that would reach
// only some of the Nodes.
//
// # Secrets
//
// Agents may read Secrets of a single namespace, so the manager copies pull secrets there, cut to the credentials for
// the job's image, and refreshes and deletes the copies (package pullsecret). A reference in a NodeImage names the tags
// for which the Secret may be used. Admission refuses a job whose author may not read the Secrets.
package imagepulljob
