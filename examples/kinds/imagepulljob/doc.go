// Package imagepulljob is the reference controller for apps.kruise.io ImagePullJobs, which pull an image on Nodes
// before Pods need the image.
//
// A reconcile of a job has four steps: observe, decide, act, report. The controller adds the job's request for the
// image, called a claim, to the NodeImages of a few Nodes at a time. The agents of these Nodes pull the image and
// report the results, and the job's status counts the results. Package imagepull contains the rules. The function
// resolve parses and validates each spec once, and the function decide plans all writes; resolve and decide are pure.
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
// not changed. After the end of the job, the Pods stay for as long as a claim would stay in a NodeImage, because the
// kubelet does not delete an image in use. The process remembers which Nodes have pulled: if the Pod of such a Node
// is evicted, the Pod is not created again, and if a quota refuses further Pods, the Pods of such Nodes are deleted.
// A job of the type Never keeps the Pods. A Pod that the scheduler cannot place for a minute is deleted, and the Node
// is tried again later, after all other Nodes. If the annotation of a running job changes, the claims and the copies
// of Secrets are removed, or the Pods are deleted.
//
// A Pod with the pull policy Always is replaced after the pull by a Pod that only keeps the image in use. The Pods of
// the last Nodes are not replaced: such Pods are deleted when the job ends, because the kubelet would ask the registry
// again and again. If the admission plugin AlwaysPullImages is on, this concerns all Pods.
//
// # Changes
//
// Users may change the image and the selectors of a running job: the claims for the earlier image, and the claims for
// Nodes that are not selected any more, are removed. Admission refuses any other change of a running job that would
// have an effect on only some of the Nodes.
//
// # Secrets
//
// Agents may read the Secrets of a single namespace only. So the manager copies pull secrets into this namespace,
// reduced to the credentials for the job's image, and refreshes and deletes the copies (package pullsecret). A
// reference in a NodeImage names the tags for which the Secret may be used. Admission refuses a job whose author may
// not read the Secrets.
package imagepulljob
