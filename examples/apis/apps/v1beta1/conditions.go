package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Condition is a condition of a workload.
type Condition struct {
	// Type is the name of the condition.
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastUpdateTime is when the present reason was first set, for conditions with a deadline: the progress deadline of
	// a CloneSet is counted from this time.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is a CamelCase word that programs can read.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is a text for users.
	// +optional
	Message string `json:"message,omitempty"`
}

// Conditions are the conditions of a workload, at most one of each type.
type Conditions []Condition

// Find returns the condition of a type, or nil. The pointer points into the list.
func (s Conditions) Find(t string) *Condition {
	for i := range s {
		if s[i].Type == t {
			return &s[i]
		}
	}
	return nil
}

// Set replaces the condition of c's type, or adds c if there is none. Set sets LastTransitionTime to now if the status
// changes. LastUpdateTime of c is used only if the status or the reason changes.
func (s *Conditions) Set(c Condition, now metav1.Time) {
	c.LastTransitionTime = now
	old := s.Find(c.Type)
	if old == nil {
		*s = append(*s, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Reason == c.Reason && !c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	*old = c
}

// Drop removes the condition of a type.
func (s *Conditions) Drop(t string) {
	*s = slices.DeleteFunc(*s, func(c Condition) bool { return c.Type == t })
}

// SetFailure sets a condition if err is not nil, and removes the condition if err is nil. The reason and the message
// come from the error.
func (s *Conditions) SetFailure(t string, err error, now metav1.Time) {
	if err == nil {
		s.Drop(t)
		return
	}
	why, message := reason.ForCondition(err)
	s.Set(Condition{Type: t, Status: corev1.ConditionTrue, Reason: string(why), Message: message}, now)
}
