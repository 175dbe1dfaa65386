package imagepull

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why an image is not pulled now, or why a report is ignored. Other reasons come from package
// completion.
const (
	// InvalidImage means that the name of an image is not valid.
	InvalidImage reason.Code = "InvalidImage"
	// TooManyImages means that a Node's object already contains the largest number of images or claims.
	TooManyImages reason.Code = "TooManyImages"
	// RegistryNotAllowed means that the Node must not pull from the registry of an image.
	RegistryNotAllowed reason.Code = "RegistryNotAllowed"
	// ImagesUnknown means that the container runtime has not listed its images.
	ImagesUnknown reason.Code = "ImagesUnknown"
	// PullAwaited means that a pull is in progress.
	PullAwaited reason.Code = "PullAwaited"
	// PullsReached means that the Node already pulls as many images at the same time as Bounds.Pulls allows.
	PullsReached reason.Code = "PullsReached"
	// BytesReached means that the wanted images of the Node have reached the size that Bounds.Bytes allows.
	BytesReached reason.Code = "BytesReached"
	// DiskBelowFloor means that the Node has, or would have after the pull, less free disk than required.
	DiskBelowFloor reason.Code = "DiskBelowFloor"
	// WindowClosed means that pulls begin only at certain times of the day.
	WindowClosed reason.Code = "WindowClosed"
	// PullFailed means that a pull has failed, and no attempt is left.
	PullFailed reason.Code = "PullFailed"
	// PullRetried means that an attempt has failed, and the next attempt waits.
	PullRetried reason.Code = "PullRetried"
	// PullTooLong means that a pull was not over at the deadline of the claims.
	PullTooLong reason.Code = "PullTooLong"
	// ImageLost means that an image was pulled and is not present any more.
	ImageLost reason.Code = "ImageLost"
	// ImageAbsent means that a wanted image is not present on the Node.
	ImageAbsent reason.Code = "ImageAbsent"
	// AgentSilentOnNode means that the agent of a Node has not reported in time about an image that a job wants on the Node.
	AgentSilentOnNode reason.Code = "AgentSilentOnNode"
	// NodesNotReady means that some Nodes of a job cannot pull now.
	NodesNotReady reason.Code = "NodesNotReady"
	// NodesNotFound means that a job names Nodes that do not exist.
	NodesNotFound reason.Code = "NodesNotFound"
	// ReportRefused means that a Node's report has impossible values, and is ignored.
	ReportRefused reason.Code = "ReportRefused"
)
