package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/reason"
)

// TestUndecodableEphemeralJobs: a list with invalid items is decoded, and an object with undecodable fields cannot be
// encoded.
func TestUndecodableEphemeralJobs(t *testing.T) {
	const list = `{"items":[
		{"spec":{"template":{"ephemeralContainers":[{"name":"a"}]},"paused":true},"status":{"match":2}},
		{"spec":{"template":{"ephemeralContainers":7},"paused":true}},
		{"spec":{"template":{}},"status":{"match":3,"startTime":"2026-01-01t00:00:00z"}}]}`
	var got v1alpha1.EphemeralJobList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	if good := &got.Items[0]; len(good.Spec.Undecodable) > 0 || !good.Spec.Paused || good.Status.Matches != 2 || len(good.Spec.Template.EphemeralContainers) != 1 {
		t.Errorf("%+v", good)
	}
	if odd := &got.Items[1].Spec; len(odd.Undecodable) != 1 || odd.Undecodable[0].Path != "spec.template.ephemeralContainers" || !odd.Paused {
		t.Errorf("%+v", odd.Undecodable)
	}
	if _, err := json.Marshal(got.Items[1]); err == nil {
		t.Error("a spec that was not read in full is written")
	}
	if s := &got.Items[2].Status; s.Matches != 3 || s.StartTime != nil {
		t.Errorf("%+v", s)
	}
}

func TestEphemeralJobConditions(t *testing.T) {
	at := func(s int64) metav1.Time { return metav1.NewTime(time.Unix(s, 0)) }
	var l v1alpha1.EphemeralJobConditions
	l.Set(v1alpha1.EJobFailed, nil, at(1))
	l.Set(v1alpha1.EJobFailed, reason.Reason{Code: "A", Detail: "a"}, at(1))
	l.Set(v1alpha1.EJobFailed, reason.Reason{Code: "B", Detail: "b"}, at(2))
	l.Set(v1alpha1.EJobWaiting, errors.New("c"), at(3))
	want := v1alpha1.EphemeralJobConditions{
		{Type: v1alpha1.EJobFailed, Status: corev1.ConditionTrue, Reason: "B", Message: "b", LastProbeTime: at(1), LastTransitionTime: at(1)},
		{Type: v1alpha1.EJobWaiting, Status: corev1.ConditionTrue, Reason: "Error", Message: "c", LastProbeTime: at(3), LastTransitionTime: at(3)},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	l[0].Status = corev1.ConditionFalse
	l.Set(v1alpha1.EJobFailed, reason.Code("D"), at(4))
	if c := l.Get(v1alpha1.EJobFailed); !c.LastTransitionTime.Equal(new(at(4))) || c.Status != corev1.ConditionTrue {
		t.Errorf("%+v", c)
	}
	if l.Set(v1alpha1.EJobFailed, nil, at(5)); len(l) != 1 || l.Get(v1alpha1.EJobFailed) != nil {
		t.Errorf("%+v", l)
	}
}

// TestEphemeralJobEnd: a job whose status says that the job has ended counts as ended, whichever controller wrote the
// status. Condition JobFailed alone does not mean that the job has ended.
func TestEphemeralJobEnd(t *testing.T) {
	at := func(s int64) *metav1.Time { return new(metav1.NewTime(time.Unix(s, 0))) }
	failed := v1alpha1.EphemeralJobConditions{{Type: v1alpha1.EJobFailed, Status: corev1.ConditionTrue}}
	for _, c := range []struct {
		name   string
		status v1alpha1.EphemeralJobStatus
		want   time.Time
	}{
		{"EJ-8 running, some failed", v1alpha1.EphemeralJobStatus{Phase: v1alpha1.EphemeralJobRunning, Conditions: failed, StartTime: at(1)}, time.Time{}},
		{"EJ-13 with times", v1alpha1.EphemeralJobStatus{Phase: v1alpha1.EphemeralJobFailed, StartTime: at(1), CompletionTime: at(2)}, time.Unix(2, 0)},
		{"EJ-13 without an end", v1alpha1.EphemeralJobStatus{Phase: v1alpha1.EphemeralJobSucceeded, StartTime: at(1)}, time.Unix(1, 0)},
		{"EJ-13 without times", v1alpha1.EphemeralJobStatus{Phase: v1alpha1.EphemeralJobSucceeded}, time.Unix(0, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.status.Ended(); !got.Equal(c.want) || c.status.Finished() != !c.want.IsZero() {
				t.Errorf("%v, %v; want %v", got, c.status.Finished(), c.want)
			}
		})
	}
	if began := (&v1alpha1.EphemeralJobStatus{}).Began(); !began.IsZero() {
		t.Errorf("%v", began)
	}
}
