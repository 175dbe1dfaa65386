package inplaceupdate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// These are names of the unexported types of the annotations' content, for tests of the wire format.
type (
	SavedState      = savedState
	SavedBatch      = savedBatch
	SavedGrace      = savedGrace
	Progress        = progress
	KnownImage      = knownImage
	Sighting        = sighting
	ContainerRecord = containerRecord
	PreCheck        = preCheck
)

// NewSavedState returns a state with the given progress.
func NewSavedState(revision string, started time.Time, p Progress) *SavedState {
	return &SavedState{Revision: revision, UpdateTimestamp: metav1.NewTime(started), progress: p}
}

// Undecodable returns a decoder's error as a list of reasons.
func Undecodable(err error) reason.List { return undecodable(err) }

// Part returns the part of a state that decides whether the update is complete.
func (s *savedState) Part() Progress { return s.progress }

// Saved returns the Pod's whole state.
func (u *Updater) Saved(pod *corev1.Pod) (*SavedState, error) { return u.config.Keys.readState(pod) }
