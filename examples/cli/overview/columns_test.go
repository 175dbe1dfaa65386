package overview

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestRows(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct{ name, resource, body, head, row string }{
		{
			"5.6 a CloneSet, with unknown values", "clonesets", "{spec: {replicas: 3}, status: {replicas: 2, updatedReplicas: 1}}",
			"NAME|DESIRED|UPDATED|UPDATED_READY|UPDATED_AVAILABLE|READY|TOTAL|AGE", "web|3|1|-|-|-|2|60s",
		},
		{"5.6 a StatefulSet", "statefulsets", "{spec: {replicas: 3}, status: {replicas: 2}}", "NAME|DESIRED|CURRENT|UPDATED|READY|AGE", "web|3|2|-|-|60s"},
		{
			"5.6 a DaemonSet", "daemonsets", "{spec: {template: {spec: {nodeSelector: {b: '1', a: '2'}}}}}",
			"NAME|DESIRED|CURRENT|READY|UP-TO-DATE|AVAILABLE|NODE SELECTOR|AGE", "web|-|-|-|-|-|a=2,b=1|60s",
		},
		{"5.6 a schedule", "advancedcronjobs", "{spec: {schedule: '* * * * *', paused: true}, status: {active: [{}, {}]}}", "NAME|SCHEDULE|SUSPEND|ACTIVE|LAST SCHEDULE|AGE", "web|* * * * *|true|2|-|60s"},
		{
			"5.6 a request", "containerrecreaterequests", "{status: {phase: Completed, containerRecreateStates: [{phase: Succeeded}, {phase: Failed}, {phase: Succeeded}]}}",
			"NAME|PHASE|COMPLETED|FAILED|AGE", "web|Completed|2|1|60s",
		},
		{"KC-32 a kind that nobody has listed", "novelties", "{}", "NAME|AGE", "web|60s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte(tt.body), &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetName("web")
			u.SetCreationTimestamp(metav1.NewTime(now.Add(-time.Minute)))
			got := rows(tt.resource, []unstructured.Unstructured{u}, false, now)
			if diff := cmp.Diff([]string{tt.head, tt.row}, []string{strings.Join(got[0], "|"), strings.Join(got[1], "|")}); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}
