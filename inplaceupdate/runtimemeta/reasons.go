package runtimemeta

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why a report cannot be read.
const (
	// UnreadableReport means that an annotation cannot be parsed as a report. An agent overwrites such an annotation.
	UnreadableReport reason.Code = "UnreadableReport"
	// ReportTooLarge means that an annotation is too long to be a report.
	ReportTooLarge reason.Code = "ReportTooLarge"
)

// These are reasons why a report is incomplete, and why a container is stopped or not stopped.
const (
	// EnvironmentAwaited means that the environment of a running container has not been read yet.
	EnvironmentAwaited reason.Code = "EnvironmentAwaited"
	// HashUnreadable means that the kubelet's hash of a container cannot be parsed as a number.
	HashUnreadable reason.Code = "HashUnreadable"
	// EnvOutdated means that a container runs with an old value of a label or annotation during an update in place.
	EnvOutdated reason.Code = "EnvOutdated"
	// InstanceUnreported means that an outdated container is not stopped yet, because the Pod's status does not show
	// the instance: the instance may have read newer values than the given Pod has.
	InstanceUnreported reason.Code = "InstanceUnreported"
	// WouldNotStartAgain means that an outdated container is not stopped because its kubelet would not start the
	// container again.
	WouldNotStartAgain reason.Code = "WouldNotStartAgain"
)
