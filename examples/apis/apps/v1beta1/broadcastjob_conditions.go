package v1beta1

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Condition returns the condition of a type, or nil. The pointer points into the status.
func (s *BroadcastJobStatus) Condition(t JobConditionType) *JobCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// Holds reports whether the condition of the type is True.
func (s *BroadcastJobStatus) Holds(t JobConditionType) bool {
	c := s.Condition(t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// SetCondition replaces the condition of c's type, or adds c if there is none. SetCondition sets LastTransitionTime to
// now if the status changes.
func (s *BroadcastJobStatus) SetCondition(c JobCondition, now metav1.Time) {
	c.LastTransitionTime = now
	old := s.Condition(c.Type)
	if old == nil {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime, c.LastProbeTime = old.LastTransitionTime, old.LastProbeTime
	}
	*old = c
}

// DropCondition removes the condition of a type.
func (s *BroadcastJobStatus) DropCondition(t JobConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c JobCondition) bool { return c.Type == t })
}

// Finished reports whether the job has ended, successfully or not. The controller no longer changes a finished job or
// its Pods.
func (s *BroadcastJobStatus) Finished() bool {
	return s.Phase == PhaseCompleted || s.Phase == PhaseFailed || s.Holds(JobComplete) || s.Holds(JobFailed)
}

// Began returns the start time of the job, or zero before the start.
func (s *BroadcastJobStatus) Began() time.Time {
	if s.StartTime == nil {
		return time.Time{}
	}
	return s.StartTime.Time
}

// Ended returns the end time of the job, or zero before the end. If no end is recorded, the result is the start time,
// or the Unix epoch if no start is recorded either; the job then counts as ended long ago.
func (s *BroadcastJobStatus) Ended() time.Time {
	if !s.Finished() {
		return time.Time{}
	}
	if s.CompletionTime != nil {
		return s.CompletionTime.Time
	}
	for _, t := range []JobConditionType{JobComplete, JobFailed} {
		if c := s.Condition(t); c != nil && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if began := s.Began(); !began.IsZero() {
		return began
	}
	return time.Unix(0, 0)
}

// SetFailure sets a condition if err is not nil, and removes the condition if err is nil. The reason and the message
// come from the error.
func (s *BroadcastJobStatus) SetFailure(t JobConditionType, err error, now metav1.Time) {
	if err == nil {
		s.DropCondition(t)
		return
	}
	why, message := reason.ForCondition(err)
	s.SetCondition(JobCondition{Type: t, Status: corev1.ConditionTrue, Reason: string(why), Message: message}, now)
}
