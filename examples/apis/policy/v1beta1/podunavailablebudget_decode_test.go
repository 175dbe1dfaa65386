package v1beta1_test

import (
	"encoding/json"
	"testing"

	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// TestUndecodable: a list with invalid items is decoded, a budget whose status has undecodable fields admits no
// request, and a spec with undecodable fields cannot be encoded.
func TestUndecodable(t *testing.T) {
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"maxUnavailable":1},"status":{"observedGeneration":1,"disruptedPods":{"web-0":"2026-01-05T10:00:00Z"},"unavailableAllowed":2}},
		{"metadata":{"name":"bound"},"spec":{"selector":{"matchLabels":{"a":"b"}},"maxUnavailable":3000000000},"status":{"observedGeneration":1,"unavailableAllowed":2}},
		{"metadata":{"name":"time"},"spec":{"maxUnavailable":1},"status":{"observedGeneration":1,"disruptedPods":{"web-0":"2026-01-05t10:00:00z"},"unavailableAllowed":2}}]}`
	var budgets v1beta1.PodUnavailableBudgetList
	if err := json.Unmarshal([]byte(list), &budgets); err != nil {
		t.Fatal(err)
	}
	good, bound, time := &budgets.Items[0], &budgets.Items[1], &budgets.Items[2]
	if len(good.Spec.Undecodable)+len(good.Status.Undecodable) > 0 || good.Status.ObservedGeneration != 1 || len(good.Status.DisruptedPods) != 1 {
		t.Errorf("%+v", good)
	}
	if len(bound.Spec.Undecodable) != 1 || bound.Spec.Undecodable[0].Path != "spec.maxUnavailable" || bound.Spec.MaxUnavailable != nil || bound.Spec.Selector == nil || bound.Status.ObservedGeneration != 1 {
		t.Errorf("%+v", bound)
	}
	if len(time.Status.Undecodable) != 1 || time.Status.ObservedGeneration != 0 || time.Status.UnavailableAllowed != 2 {
		t.Errorf("%+v", time)
	}
	if _, err := json.Marshal(bound); err == nil {
		t.Error("what was not read is written")
	}
	if _, err := json.Marshal(time); err != nil {
		t.Error(err)
	}
}
