package cloneset

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// statuses remembers the status last written of each owner. The cache may still show an older one, and a decision that it
// needs no change, made by that one, would leave the newer in place for good: own status writes wake nobody.
type statuses struct {
	mu   sync.Mutex
	last map[types.UID]writtenStatus
}

// writtenStatus is one status write. An open one was not answered.
type writtenStatus struct {
	version    string
	generation int64
	status     v1beta1.CloneSetStatus
	open       bool
}

func (s *statuses) keep(owner types.UID, w writtenStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[types.UID]writtenStatus{}
	}
	s.last[owner] = w
}

func (s *statuses) of(owner types.UID) (writtenStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.last[owner]
	return w, ok
}

func (s *statuses) forget(owner types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, owner)
}

// overlay gives the CloneSet the status that it has by now, as far as it was written here. It is the caller's own copy.
func (s *statuses) overlay(cs *v1beta1.CloneSet) {
	if w, ok := s.of(cs.UID); ok && w.version != "" && !reachedVersion(cs.ResourceVersion, w.version) {
		w.status.DeepCopyInto(&cs.Status)
	}
}

// version returns the CloneSet's newest version that is known to have the same spec. Another spec's version must not become
// a precondition: it would let a write that was decided on this one undo the other.
func (s *statuses) version(cs *v1beta1.CloneSet) string {
	if w, ok := s.of(cs.UID); ok && w.generation == cs.Generation && !reachedVersion(cs.ResourceVersion, w.version) {
		return w.version
	}
	return cs.ResourceVersion
}

// open reports whether the last write was not answered, so that nobody knows what the status is.
func (s *statuses) open(owner types.UID) bool {
	w, _ := s.of(owner)
	return w.open
}

// foreign reports a change of the status that was not made here: by a predecessor whose last write this process had not
// seen when it began, for example.
func (s *statuses) foreign(before, after *v1beta1.CloneSet) bool {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return false
	}
	w, ok := s.of(after.UID)
	return !ok || !reachedVersion(w.version, after.ResourceVersion)
}

func reachedVersion(have, want string) bool {
	order, err := resourceversion.CompareResourceVersion(have, want)
	return err == nil && order >= 0
}

// ownerChanged drops the events of the controller's own status writes.
func (r *Reconciler) ownerChanged(e event.UpdateEvent) bool {
	if specChanged(e) {
		return true
	}
	before, ok := e.ObjectOld.(*v1beta1.CloneSet)
	after, alsoOK := e.ObjectNew.(*v1beta1.CloneSet)
	return ok && alsoOK && r.statuses.foreign(before, after)
}

// isReplaced recognises the answer to a JSON patch whose test of the UID failed. The API server names no field then, as it
// does where a value is wrong.
func isReplaced(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && apierrors.IsInvalid(err) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}
