package kubeletpull

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why a pull through the kubelet fails. Other reasons come from package imagepull.
const (
	// InvalidOptions means that the options of a Puller are incomplete or wrong.
	InvalidOptions reason.Code = "InvalidOptions"
	// ImageVolumesMissing means that a Node's kubelet or container runtime does not support image volumes.
	ImageVolumesMissing reason.Code = "ImageVolumesMissing"
	// PauseImageFailed means that the kubelet cannot pull the pause image of the Pod.
	PauseImageFailed reason.Code = "PauseImageFailed"
	// PodFailed means that the Pod was evicted, was refused by the kubelet, or cannot start.
	PodFailed reason.Code = "PodFailed"
	// PodChanged means that a webhook or a scheduler has changed the Pod, so the Pod cannot pull the image onto the Node.
	PodChanged reason.Code = "PodChanged"
	// PullTimedOut means that an attempt was not over in time.
	PullTimedOut reason.Code = "PullTimedOut"
)
