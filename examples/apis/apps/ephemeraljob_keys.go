package apps

// Keys of EphemeralJob.
const (
	// EnvEphemeralJobID is the UID of the EphemeralJob that has added an ephemeral container. Written by EphemeralJob into
	// the environment of each of its containers.
	EnvEphemeralJobID = "KRUISE_EJOB_ID"
	// FinalizerEphemeralJob holds a deleted EphemeralJob until somebody has been told of containers that go on. Written by
	// EphemeralJob on itself.
	FinalizerEphemeralJob = "apps.kruise.io/ephemeralcontainers-cleanup"
)

// Events of an EphemeralJob.
const (
	// EventContainersAdded says into how many Pods containers were added.
	EventContainersAdded = "ContainersAdded"
	// EventContainersNotAdded is a Warning: Pods do not take the containers.
	EventContainersNotAdded = "CreateFailed"
	// EventContainersGoOn is a Warning: the job is deleted, and its containers go on.
	EventContainersGoOn = "RemoveFailed"
	// EventEphemeralJobSucceeded says that the containers have ended well in all wanted Pods.
	EventEphemeralJobSucceeded = "JobSucceeded"
	// EventEphemeralJobFailed is a Warning: the job has ended, and not well.
	EventEphemeralJobFailed = "JobFailed"
	// EventInvalidEphemeralJob is a Warning: the spec makes no sense, and Pods are left alone.
	EventInvalidEphemeralJob = "InvalidSpec"
)
