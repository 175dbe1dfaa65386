package apps

// These are the keys of BroadcastJob.
const (
	// LabelBroadcastJobName is the name of a Pod's BroadcastJob. The value is written by the controller at creation.
	LabelBroadcastJobName = "broadcastjob-name"
	// LabelBroadcastJobUID is the UID of a Pod's BroadcastJob. The value is written by the controller at creation.
	LabelBroadcastJobUID = "broadcastjob-controller-uid"
)

// ReservedBroadcastJobLabels returns the labels written by a BroadcastJob on its Pods. Pod templates must not contain
// these labels.
func ReservedBroadcastJobLabels() []string {
	return []string{LabelBroadcastJobName, LabelBroadcastJobUID}
}

// These are the events of a BroadcastJob, beside the events for created and deleted Pods.
const (
	// EventJobComplete says that a Pod has ended on every Node.
	EventJobComplete = "JobComplete"
	// EventJobFailed is a Warning: a Pod has failed, and therefore the job has failed.
	EventJobFailed = "Failed"
	// EventDeadlineExceeded is a Warning: the job has failed, because the deadline has passed.
	EventDeadlineExceeded = "DeadlineExceeded"
	// EventPaused says that the job is paused, because the spec says so or because Pods have failed.
	EventPaused = "Paused"
	// EventContinue says that the job is not paused any more.
	EventContinue = "Continue"
	// EventTooManyActivePods is a Warning: parallelism was lowered, and more Pods run than parallelism now allows.
	EventTooManyActivePods = "TooManyActivePods"
	// EventNoNodeFits is a Warning: the job's Pods fit no Node, so the job has no Pods.
	EventNoNodeFits = "NoNodeFits"
	// EventDuplicatePod is a Warning: a Node has two Pods of the job.
	EventDuplicatePod = "DuplicatePodCreatedOnSameNode"
	// EventInvalidBroadcastJob is a Warning: the spec is invalid, and Pods stay unchanged.
	EventInvalidBroadcastJob = "InvalidSpec"
)
