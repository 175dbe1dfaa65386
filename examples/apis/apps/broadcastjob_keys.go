package apps

// Keys of BroadcastJob.
const (
	// LabelBroadcastJobName is the name of a Pod's BroadcastJob. Written by BroadcastJob at creation.
	LabelBroadcastJobName = "broadcastjob-name"
	// LabelBroadcastJobUID is the UID of a Pod's BroadcastJob. Written by BroadcastJob at creation.
	LabelBroadcastJobUID = "broadcastjob-controller-uid"
)

// ReservedBroadcastJobLabels returns the labels written by a BroadcastJob on its Pods. Templates must leave the labels
// alone.
func ReservedBroadcastJobLabels() []string {
	return []string{LabelBroadcastJobName, LabelBroadcastJobUID}
}

// Events of a BroadcastJob, beside the events for created and deleted Pods.
const (
	// EventJobComplete says that a Pod has ended on every Node.
	EventJobComplete = "JobComplete"
	// EventJobFailed is a Warning: a Pod has failed, and so has the job.
	EventJobFailed = "Failed"
	// EventDeadlineExceeded is a Warning: the job has taken too long, and has failed.
	EventDeadlineExceeded = "DeadlineExceeded"
	// EventPaused says that the job is paused, by its spec or by failed Pods.
	EventPaused = "Paused"
	// EventContinue says that the job is not paused any more.
	EventContinue = "Continue"
	// EventTooManyActivePods is a Warning: more Pods run than parallelism allows, after parallelism was lowered.
	EventTooManyActivePods = "TooManyActivePods"
	// EventNoNodeFits is a Warning: the job's Pods fit no Node, so the job goes on without Pods.
	EventNoNodeFits = "NoNodeFits"
	// EventDuplicatePod is a Warning: a Node has two Pods of the job.
	EventDuplicatePod = "DuplicatePodCreatedOnSameNode"
	// EventInvalidBroadcastJob is a Warning: the spec makes no sense, and Pods are left alone.
	EventInvalidBroadcastJob = "InvalidSpec"
)
