package inplaceupdate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is how far a Pod's update has come, for whoever reports it.
type State struct {
	// Revision is the Target.Revision that the Pod was updated to last.
	Revision string
	// Started is when that update started, in whole seconds.
	Started time.Time
	// Batches are the containers that were changed together so far, the oldest first. An update of metadata alone has none.
	Batches []Batch
	// Postponed names, sorted, the containers that a later batch will change.
	Postponed []string
}

// Batch is a group of containers that were changed in one write.
type Batch struct {
	// At is when that was, in whole seconds.
	At time.Time
	// Containers are their names, sorted.
	Containers []string
}

// State returns the state of the Pod's last update, nil if it was never updated. The error carries the code UnreadableState, or
// InvalidConfig if New did not make the Updater.
func (u *Updater) State(pod *corev1.Pod) (*State, error) {
	if err := u.ready(); err != nil {
		return nil, err
	}
	saved, err := u.config.Keys.readState(pod)
	if saved == nil || err != nil {
		return nil, err
	}
	state := &State{Revision: saved.Revision, Started: saved.UpdateTimestamp.Time}
	for _, batch := range saved.ContainerBatchesRecord {
		state.Batches = append(state.Batches, Batch{At: batch.Timestamp.Time, Containers: batch.Containers})
	}
	if next := saved.next(); !next.isEmpty() {
		state.Postponed = next.containers()
	}
	return state, nil
}

// InGracePeriod reports whether the Pod carries a change that waits for the end of a grace period.
func (u *Updater) InGracePeriod(pod *corev1.Pod) bool {
	if u.ready() != nil {
		return false
	}
	_, _, ok := u.config.Keys.graceOf(pod)
	return ok
}
