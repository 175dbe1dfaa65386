package v1beta1_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestConditions(t *testing.T) {
	at := func(hour int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)) }
	var c v1beta1.Conditions
	for hour, next := range []v1beta1.Condition{
		1: {Type: "A", Status: "True", Reason: "x", Message: "one"},
		2: {Type: "B", Status: "True"},
		3: {Type: "A", Status: "True", Reason: "y", Message: "two"},
		4: {Type: "B", Status: "False"},
		5: {Type: "C", Status: "True"},
		6: {Type: "D", Status: "True", Reason: "x", LastUpdateTime: at(6)},
		7: {Type: "E", Status: "True", Reason: "x", LastUpdateTime: at(7)},
		8: {Type: "D", Status: "True", Reason: "x", LastUpdateTime: at(8), Message: "the reason is as old as before"},
		9: {Type: "E", Status: "True", Reason: "y", LastUpdateTime: at(9)},
	} {
		if next.Type != "" {
			c.Set(next, at(hour))
		}
	}
	c.Drop("C")
	c.SetFailure("F", errors.New("quota exceeded"), at(10))
	c.SetFailure("B", nil, at(11))
	want := v1beta1.Conditions{
		{Type: "A", Status: "True", Reason: "y", Message: "two", LastTransitionTime: at(1)},
		{Type: "D", Status: "True", Reason: "x", Message: "the reason is as old as before", LastTransitionTime: at(6), LastUpdateTime: at(6)},
		{Type: "E", Status: "True", Reason: "y", LastTransitionTime: at(7), LastUpdateTime: at(9)},
		{Type: "F", Status: "True", Reason: "Error", Message: "quota exceeded", LastTransitionTime: at(10)},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if c.Find("C") != nil || c.Find("A").Message != "two" {
		t.Errorf("found %v and %v", c.Find("C"), c.Find("A"))
	}
}
