package executor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
)

func TestRecord(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-3"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-3"}}
	why := reason.List{{Code: "ImmutableField", Path: "spec.x"}}
	for _, tc := range []struct {
		name  string
		event executor.Event
		want  string
	}{
		{"deleted", executor.Event{Type: executor.Deleted, Pod: pod}, "Normal Deleted Pod web-3"},
		{"started", executor.Event{Type: executor.Started, Pod: pod, Revision: "web-7d9"}, "Normal Started Pod web-3, revision web-7d9"},
		{"recreated", executor.Event{Type: executor.Recreated, Pod: pod, Why: why}, "Normal Recreated Pod web-3, because ImmutableField: spec.x"},
		{"blocked", executor.Event{Type: executor.Blocked, Pod: pod, Why: why}, "Warning Blocked Pod web-3, because ImmutableField: spec.x"},
		{"failed", executor.Event{Type: executor.DeleteFailed, Pod: pod, Err: errors.New("no")}, "Warning DeleteFailed Pod web-3: no"},
		{
			"too long for the API server",
			executor.Event{Type: executor.DeleteFailed, Pod: pod, Err: errors.New(strings.Repeat("x", 2000))},
			"Warning DeleteFailed " + reason.Shorten("Pod web-3: "+strings.Repeat("x", 2000), 1000),
		},
		{
			"a claim that cannot grow",
			executor.Event{Type: executor.ClaimGrowthFailed, Claim: claim, Err: errors.New("no")},
			"Warning ClaimGrowthFailed PersistentVolumeClaim data-web-3: no",
		},
		{"deleted to be made anew", executor.Event{Type: executor.Deleted, Pod: pod, Revision: "web-7d9"}, ""},
		{"not deleted to be made anew", executor.Event{Type: executor.DeleteFailed, Pod: pod, Revision: "web-7d9", Err: errors.New("no")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			executor.Record[*corev1.ReplicationController](recorder)(&corev1.ReplicationController{}, tc.event)
			close(recorder.Events)
			if diff := cmp.Diff(tc.want, <-recorder.Events); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}
