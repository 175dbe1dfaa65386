package v1beta1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestStatefulSetConditions(t *testing.T) {
	at := func(hour int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)) }
	var status v1beta1.StatefulSetStatus
	status.SetCondition(v1beta1.StatefulSetCondition{Type: "A", Status: "True", Message: "one"}, at(1))
	status.SetCondition(v1beta1.StatefulSetCondition{Type: "B", Status: "True"}, at(2))
	status.SetCondition(v1beta1.StatefulSetCondition{Type: "A", Status: "True", Message: "two"}, at(3))
	status.SetCondition(v1beta1.StatefulSetCondition{Type: "B", Status: "False"}, at(4))
	status.SetCondition(v1beta1.StatefulSetCondition{Type: "C", Status: "True"}, at(5))
	status.DropCondition("C")
	want := []v1beta1.StatefulSetCondition{
		{Type: "A", Status: "True", Message: "two", LastTransitionTime: at(1)},
		{Type: "B", Status: "False", LastTransitionTime: at(4)},
	}
	if diff := cmp.Diff(want, status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if status.Condition("C") != nil || status.Condition("B").Status != "False" {
		t.Errorf("Condition() finds %v and %v", status.Condition("C"), status.Condition("B"))
	}
}
