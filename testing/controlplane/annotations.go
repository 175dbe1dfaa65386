package controlplane

// These annotations control how a simulated kubelet handles a Pod. All annotations work in a Pod template as well as
// on an existing Pod.
const (
	// Fail makes the Pod end in phase Failed. A value other than "" and "true" becomes the status's reason, such as
	// "Evicted".
	Fail = "sim.workloadkit.io/fail"
	// Complete makes the Pod end in phase Succeeded as soon as it runs.
	Complete = "sim.workloadkit.io/complete"
	// Unready keeps the named containers (separated by commas, "*" for all) running but never ready, like a failing
	// readiness probe. When the annotation is removed, the containers become ready again.
	Unready = "sim.workloadkit.io/unready"
	// Crash keeps the named containers (separated by commas, "*" for all) in CrashLoopBackOff. When the annotation is
	// removed, the containers are restarted.
	Crash = "sim.workloadkit.io/crash"
	// ImageAlias makes the Node report another tag than the requested tag, as if both tags had the same digest. The
	// value is a list of pairs separated by commas, such as "app:2=app:stable": an image as in the spec, and the
	// reported tag.
	ImageAlias = "sim.workloadkit.io/image-alias"
	// BrokenImage names images (separated by commas, "*" for all) that cannot be pulled: a container that must run such
	// an image stops and waits in ImagePullBackOff until its spec names another image.
	BrokenImage = "sim.workloadkit.io/broken-image"
	// Stopped names container instances that a program other than the kubelet has stopped. The value is JSON with the
	// ID of the instance for each container name. A named instance ends, and the container starts again after
	// StartDelay, unless the Pod has restartPolicy Never. Package podview of module testing/fakecri writes the
	// annotation.
	Stopped = "sim.workloadkit.io/stopped"
	// StartDelay is how long containers take to start, at first and after a change of their image: a Go duration, or a
	// whole number of milliseconds. If the annotation is missing, containers start at once, in a single write of the
	// status.
	StartDelay = "sim.workloadkit.io/start-delay"
	// StopDelay is how long a deleted Pod takes to end. Without the annotation, a Pod takes its whole grace period.
	// Value: a Go duration, or a whole number of milliseconds. The time counts from the last change of the Pod.
	StopDelay = "sim.workloadkit.io/stop-delay"
)
