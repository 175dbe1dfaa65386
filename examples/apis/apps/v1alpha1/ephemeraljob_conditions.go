package v1alpha1

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// EphemeralJobConditions are the conditions of a job, at most one of each type.
type EphemeralJobConditions []EphemeralJobCondition

// Get returns the condition of a type, or nil. The pointer points into the list.
func (l EphemeralJobConditions) Get(t EphemeralJobConditionType) *EphemeralJobCondition {
	i := slices.IndexFunc(l, func(c EphemeralJobCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &l[i]
}

// Set makes a condition True with the reason of err. A nil err removes the condition.
func (l *EphemeralJobConditions) Set(t EphemeralJobConditionType, err error, now metav1.Time) {
	if err == nil {
		*l = slices.DeleteFunc(*l, func(c EphemeralJobCondition) bool { return c.Type == t })
		return
	}
	why, message := reason.ForCondition(err)
	next := EphemeralJobCondition{
		Type: t, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now, Reason: string(why), Message: message,
	}
	old := l.Get(t)
	if old == nil {
		*l = append(*l, next)
		return
	}
	if old.Status == next.Status {
		next.LastProbeTime, next.LastTransitionTime = old.LastProbeTime, old.LastTransitionTime
	}
	*old = next
}

// Finished reports whether the job has ended, successfully or not. The condition JobFailed does not say whether the job
// has ended, because the condition is also True while the job continues with other Pods.
func (s *EphemeralJobStatus) Finished() bool {
	return s.CompletionTime != nil || s.Phase == EphemeralJobSucceeded || s.Phase == EphemeralJobFailed
}

// Began returns the start time of the job, or zero before the start.
func (s *EphemeralJobStatus) Began() time.Time {
	if s.StartTime == nil {
		return time.Time{}
	}
	return s.StartTime.Time
}

// Ended returns the end time of the job, or zero before the end. If no end is recorded, the result is the start time,
// or the Unix epoch if no start is recorded either; the job then counts as ended long ago.
func (s *EphemeralJobStatus) Ended() time.Time {
	switch {
	case !s.Finished():
		return time.Time{}
	case s.CompletionTime != nil:
		return s.CompletionTime.Time
	case s.StartTime != nil:
		return s.StartTime.Time
	}
	return time.Unix(0, 0)
}
