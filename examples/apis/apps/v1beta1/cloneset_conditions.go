package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Condition returns the condition of a type, or nil. The pointer is into the status.
func (s *CloneSetStatus) Condition(t CloneSetConditionType) *CloneSetCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// SetCondition replaces the condition of c's type, or adds c. SetCondition sets LastTransitionTime to now if the status
// changes, and LastUpdateTime to now if status or reason change.
func (s *CloneSetStatus) SetCondition(c CloneSetCondition, now metav1.Time) {
	c.LastUpdateTime, c.LastTransitionTime = now, now
	old := s.Condition(c.Type)
	if old == nil {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Reason == c.Reason {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	*old = c
}

// DropCondition removes the condition of a type.
func (s *CloneSetStatus) DropCondition(t CloneSetConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c CloneSetCondition) bool { return c.Type == t })
}

// SetFailure sets a condition while err is not nil and removes the condition afterwards. Reason and message follow the
// error.
func (s *CloneSetStatus) SetFailure(t CloneSetConditionType, err error, now metav1.Time) {
	if err == nil {
		s.DropCondition(t)
		return
	}
	why, message := reason.ForCondition(err)
	s.SetCondition(CloneSetCondition{Type: t, Status: corev1.ConditionTrue, Reason: string(why), Message: message}, now)
}
