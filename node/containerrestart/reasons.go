package containerrestart

import "github.com/workloadkit/workloadkit/reason"

// Why a request fails or waits. Further reasons come from package completion.
const (
	// InvalidRequest means that a request makes no sense: a container without name or named twice, a negative time.
	InvalidRequest reason.Code = "InvalidRequest"
	// StopFailed means that the container runtime has refused to stop a container, or has not answered in time.
	StopFailed reason.Code = "StopFailed"
	// NotStartedAgain means that a container has ended, and its kubelet does not start the container again.
	NotStartedAgain reason.Code = "NotStartedAgain"
	// InstanceAwaited means that the Node's runtime knows no instance of a container.
	InstanceAwaited reason.Code = "InstanceAwaited"
	// UnreadyAwaited means that a container is stopped only after the Pod has been unready for a while.
	UnreadyAwaited reason.Code = "UnreadyAwaited"
	// StopAwaited means that the stop of a container is under way.
	StopAwaited reason.Code = "StopAwaited"
	// StartAwaited means that a container has ended, and its kubelet has not started the container again. After several
	// ends in a short time a kubelet waits for up to five minutes.
	StartAwaited reason.Code = "StartAwaited"
	// ReadyAwaited means that a new instance of a container runs, and the Pod's status does not call the instance
	// ready.
	ReadyAwaited reason.Code = "ReadyAwaited"
	// MinStartedAwaited means that a new instance of a container is ready, and has not run for long enough.
	MinStartedAwaited reason.Code = "MinStartedAwaited"
	// OrderAwaited means that a container is stopped only after the return of an earlier container.
	OrderAwaited reason.Code = "OrderAwaited"
	// BehindRequest means that an earlier request for the same Pod goes first.
	BehindRequest reason.Code = "BehindRequest"
)
