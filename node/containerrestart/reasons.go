package containerrestart

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why a request fails or waits. Other reasons come from package completion.
const (
	// InvalidRequest means that a request is invalid: a container has no name or is listed twice, or a time is
	// negative.
	InvalidRequest reason.Code = "InvalidRequest"
	// StopFailed means that the container runtime has refused to stop a container, or has not responded in time.
	StopFailed reason.Code = "StopFailed"
	// NotStartedAgain means that a container has ended, and that its kubelet will not start the container again.
	NotStartedAgain reason.Code = "NotStartedAgain"
	// InstanceAwaited means that the Node's container runtime has no instance of a container yet.
	InstanceAwaited reason.Code = "InstanceAwaited"
	// UnreadyAwaited means that a container is not stopped before the Pod has been unready for a while.
	UnreadyAwaited reason.Code = "UnreadyAwaited"
	// StopAwaited means that the stop of a container is in progress.
	StopAwaited reason.Code = "StopAwaited"
	// StartAwaited means that a container has ended, and that its kubelet has not started the container again yet. If a
	// container has ended several times in a short time, the kubelet waits for up to five minutes.
	StartAwaited reason.Code = "StartAwaited"
	// ReadyAwaited means that a new instance of a container runs but is not ready according to the Pod's status.
	ReadyAwaited reason.Code = "ReadyAwaited"
	// MinStartedAwaited means that a new instance of a container is ready but has not run for long enough yet.
	MinStartedAwaited reason.Code = "MinStartedAwaited"
	// OrderAwaited means that a container is not stopped before an earlier container has restarted.
	OrderAwaited reason.Code = "OrderAwaited"
	// BehindRequest means that an earlier request for the same Pod must end first.
	BehindRequest reason.Code = "BehindRequest"
)
