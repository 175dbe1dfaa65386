package controlplane

// Annotations that steer a simulated Pod. All of them work in a Pod template as well as on a live Pod.
const (
	// Fail makes the Pod end in phase Failed. A value other than "" and "true" becomes the status's reason, such as "Evicted".
	Fail = "sim.workloadkit.io/fail"
	// Complete makes the Pod end in phase Succeeded as soon as it is running.
	Complete = "sim.workloadkit.io/complete"
	// Unready keeps the named containers (separated by commas, "*" for all) running without ever becoming ready, as a
	// failing readiness probe does. Without the annotation they become ready again.
	Unready = "sim.workloadkit.io/unready"
	// Crash holds the named containers (separated by commas, "*" for all) in CrashLoopBackOff. Without the annotation they
	// are restarted.
	Crash = "sim.workloadkit.io/crash"
	// ImageAlias names tags that share their digest with others and that a Node reports in place of these: pairs such as
	// "app:2=app:stable", separated by commas, of an image as the spec has it and the tag.
	ImageAlias = "sim.workloadkit.io/image-alias"
	// BrokenImage names images (separated by commas, "*" for all) that cannot be pulled: a container that is to run one ends and
	// waits in ImagePullBackOff until its spec names another.
	BrokenImage = "sim.workloadkit.io/broken-image"
	// StartDelay is the time that containers need to start, at first and after a change of their image: a Go duration, or
	// a whole number of milliseconds. Without it they start at once, in a single write of the status.
	StartDelay = "sim.workloadkit.io/start-delay"
	// StopDelay is the time that a deleted Pod needs to end, in the same format, instead of its whole grace period. It is
	// counted from the last change of the Pod.
	StopDelay = "sim.workloadkit.io/stop-delay"
)
