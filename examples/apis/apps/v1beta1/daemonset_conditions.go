package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Condition returns the condition of a type, or nil. The pointer is into the status.
func (s *DaemonSetStatus) Condition(t DaemonSetConditionType) *DaemonSetCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// SetCondition replaces the condition of c's type, or adds c. SetCondition sets LastTransitionTime to now if the status
// changes.
func (s *DaemonSetStatus) SetCondition(c DaemonSetCondition, now metav1.Time) {
	c.LastTransitionTime = now
	old := s.Condition(c.Type)
	if old == nil {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

// DropCondition removes the condition of a type.
func (s *DaemonSetStatus) DropCondition(t DaemonSetConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c DaemonSetCondition) bool { return c.Type == t })
}

// SetFailure sets a condition while err is not nil and removes the condition afterwards. Reason and message follow the
// error.
func (s *DaemonSetStatus) SetFailure(t DaemonSetConditionType, err error, now metav1.Time) {
	if err == nil {
		s.DropCondition(t)
		return
	}
	why, message := reason.ForCondition(err)
	s.SetCondition(DaemonSetCondition{Type: t, Status: corev1.ConditionTrue, Reason: string(why), Message: message}, now)
}
