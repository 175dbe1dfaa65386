// Package kubeletpull pulls images through the kubelet, without an agent and without copies of Secrets.
//
// A Pod with the image as an image volume (KEP-4639) makes the kubelet of a Node pull the image, with the Pod's pull
// secrets and the kubelet's own credential providers. The image's programs never run: the Pod's only container runs a
// pause image. While the Pod lives, the image is in use, and the kubelet does not delete the image.
//
// Package kubeletpull replaces the agent's half of package imagepull. Controllers of jobs claim, plan and judge as
// before. The controller of the Nodes' objects makes a [Puller] and calls Next:
//
//	puller, err := kubeletpull.New(options)
//	step := puller.Next(kubeletpull.Observed{Node: node, Pods: pods, Events: events}, wants, reports, now)
//	record step.Reports, then delete step.Delete and create step.Create
//	look again after step.After, and when a Pod of the Node changes
//
// Record the reports first. A Pod's name follows from the reports, so ignore AlreadyExists for a created Pod and
// NotFound for a deleted Pod: a late cache never leads to a second Pod. Delete with the UID as precondition.
//
// # A Pod for each image
//
// The kubelet pulls the image volumes of a Pod one after another, and starts no container before all of the Pod's
// volumes were tried (pkg/kubelet/kuberuntime, getImageVolumes). The status of a container shows one failed volume at
// most. In a Pod with several images, a slow image would hide finished images, a single timeout would end all pulls,
// and a further image would need another Pod anyway, because volumes cannot change. So each image has a Pod.
//
// A failed attempt ends with the deletion of the Pod. The next attempt makes another Pod after the waits of package
// imagepull, so the kubelet's own waits of up to five minutes, kept for each Pod and image, do not count.
//
// # Reports in Pods
//
// With Options.Annotation, the Pods themselves carry the reports, and the caller needs no record of its own: Recorded
// reads the reports. A pull that succeeds needs no write besides the Pod's creation. A failed attempt costs a patch of
// the Pod, and the Pod stays until the next attempt's Pod exists. After the last attempt, the Pod's deadline ends the
// Pod, so that the kubelet does not try for ever.
//
//	report, since, found := puller.Recorded(seen, image, now)
//	step := puller.Next(seen, wants, reports, now)
//	patch step.Change, then create step.Create and delete step.Delete
//
// # Present means held
//
// A Report says Present while a running Pod holds the image. With Policy.Keep the Pod stays until the last claim is
// released, and [imagepull.Condition] tells the truth. Without Keep the Pod is deleted once the image was pulled, and
// Present becomes false, because the kubelet may delete the image at any time. An image deleted by hand, past the
// kubelet, stays unnoticed.
//
// The kubelet pulls an image with the pull policy Always at each look at the Pod, not once. A Pod with that policy is
// therefore replaced by a Pod with IfNotPresent after the pull.
//
// # Costs
//
// Each Pod takes a Pod slot and an IP of the Node, and about 20 MB of memory for the sandbox. The kubelet pulls a single
// image at a time by default (serializeImagePulls), so a large image delays the images of other Pods on the Node.
// Bounds.Pulls and Bounds.Window limit the delay. The free disk is unknown here: New refuses Bounds.Floor.
//
// Needed are Kubernetes 1.36, or 1.35 with the default gates, and containerd 2.1 or CRI-O 1.31. On other Nodes each pull
// fails with the reason ImageVolumesMissing, and no Pod is made.
//
// # Namespaces and Secrets
//
// The kubelet reads pull secrets in the Pod's namespace. Make a Puller for each namespace with jobs, with the wants of
// the jobs of the namespace. Messages in reports come from the Pod's status, as the kubelet wrote the status.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package kubeletpull
