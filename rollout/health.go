package rollout

// Health says whether a Pod serves its ordinal or Node. Health has no usable zero value: Plan returns an error for a
// Pod without Health.
type Health uint8

// These are the states of a Pod's health.
const (
	// Available Pods are in service: ready for as long as the workload requires.
	Available Health = iota + 1
	// Unavailable Pods are not in service, or not for long enough.
	Unavailable
	// Ended Pods have phase Failed or Succeeded. A plan deletes and recreates these Pods.
	Ended
	// Terminating Pods are being deleted. A terminating Pod occupies its ordinal or Node until the Pod is removed.
	Terminating
)
