// Package kubeletpull pulls images through the kubelet, without an agent and without copies of Secrets.
//
// A Pod with the image as an image volume (KEP-4639) makes the kubelet of a Node pull the image, with the Pod's pull
// secrets and the kubelet's own credential providers. The image's programs never run: the Pod's only container runs a
// pause image. While the Pod lives, the image is in use, and the kubelet does not delete the image.
//
// Package kubeletpull replaces the agent in package imagepull. Controllers of jobs call imagepull.AddClaim, Plan and
// Judge as with agents. The controller of the Nodes' objects makes a [Puller] and calls Next:
//
//	puller, err := kubeletpull.New(options)
//	step := puller.Next(kubeletpull.Observed{Node: node, Pods: pods, Events: events}, wants, reports, now)
//	record step.Reports, then delete step.Delete and create step.Create
//	look again after step.After, and when a Pod of the Node changes
//
// Record the reports first. A Pod's name is computed from the reports, so a stale cache never leads to a second Pod:
// ignore the error AlreadyExists of a creation, and the error NotFound of a deletion. Delete with the UID as
// precondition.
//
// # A Pod for each image
//
// The kubelet pulls the image volumes of a Pod one after another, and starts no container before all of the Pod's
// volumes were tried (pkg/kubelet/kuberuntime, getImageVolumes). The status of a container shows at most one failed
// volume. In a Pod with several images, a slow image would hide finished images, and one timeout would end all pulls.
// A further image would need another Pod anyway, because volumes cannot change. So each image has its own Pod.
//
// A failed attempt ends with the deletion of the Pod. The next attempt creates another Pod after the waits of package
// imagepull. The kubelet's own backoff of up to five minutes has no effect on a new Pod, because the kubelet keeps
// the backoff for each Pod and image.
//
// # Reports in Pods
//
// With Options.Annotation, the reports are stored in the Pods, and the caller need not store the reports: Recorded
// reads the reports from the Pods. A pull that succeeds needs no write except the Pod's creation. A failed attempt
// costs a patch of the Pod, and the Pod stays until the next attempt's Pod exists. After the last failed attempt,
// spec.activeDeadlineSeconds ends the Pod, so that the kubelet does not try for ever.
//
//	report, since, found := puller.Recorded(seen, image, now)
//	step := puller.Next(seen, wants, reports, now)
//	patch step.Change, then delete step.Delete and create step.Create
//
// # Present means in use by a Pod
//
// Report.Present is true while a running Pod uses the image. With Policy.Keep the Pod stays until the last claim is
// released, and [imagepull.Condition] is correct. Without Keep the Pod is deleted after the pull, and Present becomes
// false, because the kubelet may delete the image at any time. If a person deletes an image directly in the container
// runtime, the Puller does not notice.
//
// With the pull policy Always, the kubelet pulls the image again in each sync of the Pod. After the pull, a Pod with
// this policy is therefore replaced by a Pod with the policy IfNotPresent.
//
// # Costs
//
// Each Pod takes a Pod slot and an IP of the Node, and about 20 MB of memory for the sandbox. The kubelet pulls a
// single image at a time by default (serializeImagePulls), so a large image delays the images of other Pods on the
// Node. Bounds.Pulls and Bounds.Window limit the delay. The Puller does not know the free disk, so New refuses
// Bounds.Floor.
//
// Each Pod counts towards the quotas of the namespace. A PodDisruptionBudget whose selector matches all Pods of the
// namespace matches the Pods too. Where such a budget is a percentage or has maxUnavailable, and the Owner has no scale
// subresource, Kubernetes allows no eviction while the Pods exist: let the selector of the budget exclude
// Options.Labels.
//
// Kubernetes 1.35 with the default feature gates or a later version is needed, and containerd 2.1 or CRI-O 1.31. On
// other Nodes each pull fails with the reason ImageVolumesMissing, and no Pod is created.
//
// # Namespaces and Secrets
//
// The kubelet reads pull secrets in the Pod's namespace. Make a Puller for each namespace with jobs, with the wants
// of the jobs of the namespace. Messages in reports are the kubelet's messages in the Pod's status.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package kubeletpull
