package apps

// These are the keys of EphemeralJob.
const (
	// EnvEphemeralJobID is the UID of the EphemeralJob that has added an ephemeral container. The controller writes
	// EnvEphemeralJobID into the environment of each added container.
	EnvEphemeralJobID = "KRUISE_EJOB_ID"
	// FinalizerEphemeralJob prevents the deletion of an EphemeralJob until an event has named the containers that keep
	// running. The value is written by the controller.
	FinalizerEphemeralJob = "apps.kruise.io/ephemeralcontainers-cleanup"
)

// These are the events of an EphemeralJob.
const (
	// EventContainersAdded says to how many Pods containers were added.
	EventContainersAdded = "ContainersAdded"
	// EventContainersNotAdded is a Warning: containers could not be added to Pods.
	EventContainersNotAdded = "CreateFailed"
	// EventContainersGoOn is a Warning: the job is being deleted, but its containers keep running, because ephemeral
	// containers cannot be removed.
	EventContainersGoOn = "RemoveFailed"
	// EventEphemeralJobSucceeded says that the containers have ended successfully in all wanted Pods.
	EventEphemeralJobSucceeded = "JobSucceeded"
	// EventEphemeralJobFailed is a Warning: the job has failed.
	EventEphemeralJobFailed = "JobFailed"
	// EventInvalidEphemeralJob is a Warning: the spec is invalid, and Pods stay unchanged.
	EventInvalidEphemeralJob = "InvalidSpec"
)
