package resourcedistribution

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestStatus(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	type condition = v1beta1.ResourceDistributionCondition
	type failures = map[v1beta1.ResourceDistributionConditionType]map[string]error
	for _, c := range []struct {
		name     string
		before   []condition
		failures failures
		want     map[v1beta1.ResourceDistributionConditionType]condition // the conditions that differ from those of a success
	}{
		{"RD-11 nothing failed", nil, nil, nil},
		{
			"RD-11 failures, by name, with the reason of the first", nil,
			failures{"CreateResourceFailed": {"b": errors.New("why b"), "a": errors.New("why a")}},
			map[v1beta1.ResourceDistributionConditionType]condition{
				"CreateResourceFailed": {Status: "True", Reason: "why a", LastTransitionTime: now, FailedNamespaces: []string{"a", "b"}},
			},
		},
		{
			"RD-11 the time changes with the status alone, and short lists are matched by type",
			[]condition{
				{Type: "NamespaceNotExists", Status: "True", Reason: "old", LastTransitionTime: then, FailedNamespaces: []string{"x"}},
				{Type: "ConflictOccurred", Status: "True", Reason: "old", LastTransitionTime: then},
				{Type: "GetResourceFailed", Status: "False", Reason: "Succeeded", LastTransitionTime: then},
			},
			failures{"NamespaceNotExists": {"y": errors.New("no y")}},
			map[v1beta1.ResourceDistributionConditionType]condition{
				"NamespaceNotExists": {Status: "True", Reason: "no y", LastTransitionTime: then, FailedNamespaces: []string{"y"}},
				"GetResourceFailed":  {Status: "False", Reason: "Succeeded", LastTransitionTime: then},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			owner := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			owner.Status.Conditions = c.before
			want := v1beta1.ResourceDistributionStatus{ObservedGeneration: 3, Desired: 5, Succeeded: 2, Failed: 3}
			for _, name := range []v1beta1.ResourceDistributionConditionType{
				"GetResourceFailed", "CreateResourceFailed", "UpdateResourceFailed", "DeleteResourceFailed", "ConflictOccurred", "NamespaceNotExists",
			} {
				one, ok := c.want[name]
				if !ok {
					one = condition{Status: "False", Reason: "Succeeded", LastTransitionTime: now}
				}
				one.Type = name
				want.Conditions = append(want.Conditions, one)
			}
			if diff := cmp.Diff(want, statusOf(owner, 5, 2, c.failures, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefused: the status of an invalid ResourceDistribution keeps its numbers. Only the condition for failed updates
// contains the reason, and a single event reports the condition.
func TestRefused(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	owner := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	owner.Status = statusOf(owner, 5, 2, nil, then)
	status := refused(owner, errors.New("junk"), now)
	want := v1beta1.ResourceDistributionCondition{Type: "UpdateResourceFailed", Status: "True", Reason: "junk", LastTransitionTime: now}
	expected := statusOf(owner, 5, 2, nil, then)
	expected.Conditions[2] = want
	if diff := cmp.Diff(expected, status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1beta1.ResourceDistributionCondition{want}, news(owner.Status.Conditions, status.Conditions)); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
	owner.Status = status
	again := refused(owner, errors.New("junk"), metav1.NewTime(time.Unix(300, 0)))
	if diff := cmp.Diff(expected, again); diff != "" || len(news(status.Conditions, again.Conditions)) > 0 {
		t.Errorf("once more (-want +got):\n%s", diff)
	}
	other := refused(owner, errors.New("other junk"), now)
	if got := news(status.Conditions, other.Conditions); len(got) != 1 || got[0].Reason != "other junk" {
		t.Errorf("another reason is news: %+v", got)
	}
}
