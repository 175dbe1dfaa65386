package rollout

// Health is a Pod's service for its ordinal or Node. Health has no usable zero value: a Pod without Health is refused.
type Health uint8

// The states of a Pod's health.
const (
	// Available Pods serve: they are ready and have been for as long as the workload demands.
	Available Health = iota + 1
	// Unavailable Pods do not serve, or not yet.
	Unavailable
	// Ended Pods have phase Failed or Succeeded. The step deletes and recreates them.
	Ended
	// Terminating Pods have a deletion timestamp. A terminating Pod holds its ordinal or Node until gone.
	Terminating
)
