// Package imagepulljob is the reference controller for apps.kruise.io ImagePullJobs, which pull an image on Nodes
// before Pods need the image.
//
// A reconcile of a job has four steps: observe, decide, act, report. The job adds a claim for its image to the
// NodeImages of some Nodes at a time, the agents of these Nodes pull and report, and the job counts the results.
// Package imagepull contains the rules. The function resolve parses and validates each spec once, and the function
// decide plans all writes; resolve and decide are pure.
//
// # Nodes
//
// A job selects Nodes by name, by label, or by the Pods on the Nodes. Pulls begin in the order of spec.selector.names
// or, for all other selectors, in the order of the annotation workloadkit.io/pull-order, and then by name of the
// Node. A Node that is not ready waits, and the condition Waiting names the Node. The status says why Nodes have
// failed.
//
// # Kubelets
//
// With the annotation workloadkit.io/pull-through: kubelet, kubelets pull in place of agents: each Node gets a Pod
// with the image as an image volume (package kubeletpull). All state is in an annotation and in the status of the
// Pods, so the job's status and the NodeImages need no fields for such pulls. Pods of Nodes that cannot pull now are
// left alone. After the end of the job, the Pods stay for as long as a claim in a NodeImage would stay, because the
// kubelet does not delete an image in use. The process remembers which Nodes have pulled: a Pod that was evicted since
// is not created again, and if a quota refuses further Pods, the Pods of such Nodes are deleted to make room. A job of
// the type Never keeps the Pods. A Pod that the scheduler cannot place for a minute is deleted, and the Node is tried
// again later, after all other Nodes. A change of the annotation in a running job releases claims and copies of
// Secrets, or deletes the Pods.
//
// # Changes
//
// The image and the selectors of a running job may be changed: the claims for the earlier image, and the claims of
// Nodes that are not selected any more, are released. Admission refuses other changes of a running job that would reach
// only some of the Nodes.
//
// # Secrets
//
// Agents may read the Secrets of a single namespace only. So the manager copies pull secrets into this namespace,
// reduced to the credentials for the job's image, and refreshes and deletes the copies (package pullsecret). A
// reference in a NodeImage names the tags for which the Secret may be used. Admission refuses a job whose author may
// not read the Secrets.
package imagepulljob
