package apps

// Keys of BroadcastJob.
const (
	// LabelBroadcastJobName is the name of the BroadcastJob that a Pod belongs to. Written by BroadcastJob at creation.
	LabelBroadcastJobName = "broadcastjob-name"
	// LabelBroadcastJobUID is the UID of the BroadcastJob that a Pod belongs to. Written by BroadcastJob at creation.
	LabelBroadcastJobUID = "broadcastjob-controller-uid"
)

// ReservedBroadcastJobLabels returns the labels that a BroadcastJob writes on its Pods. Templates must leave them alone.
func ReservedBroadcastJobLabels() []string {
	return []string{LabelBroadcastJobName, LabelBroadcastJobUID}
}

// Events of a BroadcastJob, beside those of Pods that are created and deleted.
const (
	// EventJobComplete says that a Pod has ended on every Node.
	EventJobComplete = "JobComplete"
	// EventJobFailed is a Warning: a Pod has failed, and the job with it.
	EventJobFailed = "Failed"
	// EventDeadlineExceeded is a Warning: the job has taken too long, and has failed.
	EventDeadlineExceeded = "DeadlineExceeded"
	// EventPaused says that the job is paused, by its spec or by Pods that have failed.
	EventPaused = "Paused"
	// EventContinue says that the job is not paused any more.
	EventContinue = "Continue"
	// EventTooManyActivePods is a Warning: more Pods run than parallelism allows, after it was lowered.
	EventTooManyActivePods = "TooManyActivePods"
	// EventNoNodeFits is a Warning: there is no Node for the job's Pods, so that it goes on without any.
	EventNoNodeFits = "NoNodeFits"
	// EventDuplicatePod is a Warning: a Node has two Pods of the job.
	EventDuplicatePod = "DuplicatePodCreatedOnSameNode"
	// EventInvalidBroadcastJob is a Warning: the spec makes no sense, and Pods are left alone.
	EventInvalidBroadcastJob = "InvalidSpec"
)
