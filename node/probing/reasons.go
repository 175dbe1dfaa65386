package probing

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why a probe is not run, or why a state has no effect.
const (
	// UnusableProbe means that a probe cannot be run: the container or the port is unknown, the handler is not
	// supported, or the Pod's address is unusable.
	UnusableProbe reason.Code = "UnusableProbe"
	// InvalidMarker means that a Marker has an impossible value: an empty or repeated name, or a condition type
	// reserved for Kubernetes. The probe has no effect.
	InvalidMarker reason.Code = "InvalidMarker"
	// InvalidAnnotation means that the name of the annotation for ledgers is empty, or is also the name for lists of
	// Markers.
	InvalidAnnotation reason.Code = "InvalidAnnotation"
	// MarkTaken means that two probes of a Pod set the same condition, or the same label or annotation to different
	// values. The earlier probe in the order of the Book wins.
	MarkTaken reason.Code = "MarkTaken"
	// UnreadableLedger means that the annotation with the ledger of a Pod is damaged. Marks in a damaged ledger are
	// not removed.
	UnreadableLedger reason.Code = "UnreadableLedger"
	// StateNotAsked means that a Node has reported a state for which the Node was not asked: about a probe or a Pod
	// outside the spec, or about a Pod on another Node.
	StateNotAsked reason.Code = "StateNotAsked"
	// InvalidState means that a Node has reported an unknown state, or two states for the same probe.
	InvalidState reason.Code = "InvalidState"
	// RepeatedProbe means that two entries name the same probe of a Pod. Only the first entry has an effect.
	RepeatedProbe reason.Code = "RepeatedProbe"
)
