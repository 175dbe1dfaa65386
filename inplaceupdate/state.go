package inplaceupdate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is the progress of a Pod's update, for reports.
type State struct {
	// Revision is the Target.Revision of the Pod's last update.
	Revision string
	// Started is the start of the update, in whole seconds.
	Started time.Time
	// Batches are the containers changed together so far, the oldest batch first. An update of metadata alone has none.
	Batches []Batch
	// Postponed names, sorted, the containers of later batches.
	Postponed []string
}

// Batch is a group of containers changed in a single write.
type Batch struct {
	// At is the time of the write, in whole seconds.
	At time.Time
	// Containers are their names, sorted.
	Containers []string
}

// State returns the state of the Pod's last update, nil if the Pod was never updated. The error carries the code
// UnreadableState, or InvalidConfig if New did not make the Updater.
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

// InGracePeriod reports whether the Pod carries a change held back until the end of a grace period.
func (u *Updater) InGracePeriod(pod *corev1.Pod) bool {
	if u.ready() != nil {
		return false
	}
	_, _, ok := u.config.Keys.graceOf(pod)
	return ok
}
