package controlplane

// Annotations steering a simulated Pod. All annotations work in a Pod template as well as on a live Pod.
const (
	// Fail makes the Pod end in phase Failed. A value besides "" and "true" becomes the status's reason, such as
	// "Evicted".
	Fail = "sim.workloadkit.io/fail"
	// Complete makes the Pod end in phase Succeeded as soon as running.
	Complete = "sim.workloadkit.io/complete"
	// Unready keeps the named containers (separated by commas, "*" for all) running but never ready, like a failing
	// readiness probe. Without the annotation the containers become ready again.
	Unready = "sim.workloadkit.io/unready"
	// Crash holds the named containers (separated by commas, "*" for all) in CrashLoopBackOff. Without the annotation the
	// containers are restarted.
	Crash = "sim.workloadkit.io/crash"
	// ImageAlias names tags with a shared digest for a Node to report in place of the requested image: pairs such as
	// "app:2=app:stable", separated by commas, of an image as in the spec and the reported tag.
	ImageAlias = "sim.workloadkit.io/image-alias"
	// BrokenImage names images (separated by commas, "*" for all) that cannot be pulled: a container due to run such an
	// image ends and waits in ImagePullBackOff until its spec names a different image.
	BrokenImage = "sim.workloadkit.io/broken-image"
	// Stopped names instances of containers ended by somebody else than the kubelet, in JSON: the ID of the instance by the
	// name of the container. A named instance ends, and the container starts anew, after StartDelay, unless the Pod has
	// restartPolicy Never. Package podview of module testing/fakecri writes the annotation.
	Stopped = "sim.workloadkit.io/stopped"
	// StartDelay is the time needed by containers to start, at first and after a change of their image: a Go duration, or
	// a whole number of milliseconds. Without the annotation containers start at once, in a single write of the status.
	StartDelay = "sim.workloadkit.io/start-delay"
	// StopDelay is the time needed by a deleted Pod to end, in the same format, in place of its whole grace period. The
	// time counts from the last change of the Pod.
	StopDelay = "sim.workloadkit.io/stop-delay"
)
