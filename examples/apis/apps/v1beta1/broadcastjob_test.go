package v1beta1_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestBroadcastJobCRDFields: both versions have OpenKruise's fields, and a single additional field.
func TestBroadcastJobCRDFields(t *testing.T) {
	fields := fieldsOf("", `object metadata spec status spec.completionPolicy spec.failurePolicy
		string apiVersion kind spec.completionPolicy.type spec.failurePolicy.type
		anything spec.template*
		boolean spec.paused
		int-or-string spec.parallelism
		int64 spec.completionPolicy.activeDeadlineSeconds
		int32 spec.completionPolicy.ttlSecondsAfterFinished spec.failurePolicy.restartLimit`)
	maps.Copy(fields, fieldsOf("status.", `int32 active succeeded failed desired
		string phase conditions[].type* conditions[].status* conditions[].reason conditions[].message
		date-time startTime completionTime conditions[].lastProbeTime conditions[].lastTransitionTime
		array conditions
		object conditions[]
		int64 conditions[].observedGeneration`))
	fields[""] = "object"
	checkFields(t, "broadcastjobs", fields, fields)
}

func TestBroadcastJobCRDNamesAndColumns(t *testing.T) {
	c, _ := readCRD(t, "broadcastjobs")
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "BroadcastJob", "broadcastjobs", "bcj"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	columns := []column{
		{"Desired", "integer", ".status.desired", 0},
		{"Active", "integer", ".status.active", 0},
		{"Succeeded", "integer", ".status.succeeded", 0},
		{"Failed", "integer", ".status.failed", 0},
		{"AGE", "date", ".metadata.creationTimestamp", 0},
	}
	for _, version := range c.Spec.Versions {
		if diff := cmp.Diff(columns, version.Columns); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", version.Name, diff)
		}
		if stored := version.Name == "v1beta1"; version.Storage != stored || !version.Served || version.Subresources["status"] == nil {
			t.Errorf("%s: storage %t, served %t, subresources %v", version.Name, version.Storage, version.Served, version.Subresources)
		}
	}
	if len(c.Spec.Versions) != 2 || c.Spec.Conversion.Strategy != "Webhook" {
		t.Errorf("%d versions are served, and conversion is %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
}

// TestUndecodableBroadcastJobs: a list with invalid items is decoded, and an object with undecodable fields cannot be
// encoded.
func TestUndecodableBroadcastJobs(t *testing.T) {
	const list = `{"items":[
		{"spec":{"template":{"spec":{"restartPolicy":"Never"}},"paused":true},"status":{"active":2}},
		{"spec":{"template":{"spec":{"containers":7}},"paused":true}},
		{"spec":{"template":{}},"status":{"active":3,"startTime":"2026-01-01t00:00:00z"}}]}`
	var got v1beta1.BroadcastJobList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	if good := &got.Items[0]; len(good.Spec.Undecodable) > 0 || !good.Spec.Paused || good.Status.Active != 2 {
		t.Errorf("%+v", good)
	}
	if odd := &got.Items[1].Spec; len(odd.Undecodable) != 1 || odd.Undecodable[0].Path != "spec.template.spec.containers" || !odd.Paused {
		t.Errorf("%+v", odd.Undecodable)
	}
	if _, err := json.Marshal(got.Items[1]); err == nil {
		t.Error("a spec that was not read in full is written")
	}
	if s := &got.Items[2].Status; s.Active != 3 || s.StartTime != nil {
		t.Errorf("%+v", s)
	}
}

func TestBroadcastJobConditions(t *testing.T) {
	at := func(s int64) metav1.Time { return metav1.NewTime(time.Unix(s, 0)) }
	var s v1beta1.BroadcastJobStatus
	s.SetCondition(v1beta1.JobCondition{Type: v1beta1.JobPaused, Status: corev1.ConditionTrue, Reason: "a"}, at(1))
	s.SetCondition(v1beta1.JobCondition{Type: v1beta1.JobPaused, Status: corev1.ConditionTrue, Reason: "b"}, at(2))
	if c := s.Condition(v1beta1.JobPaused); !c.LastTransitionTime.Equal(new(at(1))) || c.Reason != "b" || !s.Holds(v1beta1.JobPaused) || s.Finished() {
		t.Errorf("%+v", s)
	}
	s.SetCondition(v1beta1.JobCondition{Type: v1beta1.JobFailed, Status: corev1.ConditionTrue}, at(3))
	if s.DropCondition(v1beta1.JobPaused); s.Holds(v1beta1.JobPaused) || !s.Finished() || len(s.Conditions) != 1 {
		t.Errorf("%+v", s)
	}
	for phase, over := range map[v1beta1.BroadcastJobPhase]bool{"": false, v1beta1.PhaseRunning: false, v1beta1.PhasePaused: false, v1beta1.PhaseCompleted: true, v1beta1.PhaseFailed: true} {
		if got := (&v1beta1.BroadcastJobStatus{Phase: phase}).Finished(); got != over {
			t.Errorf("%q: Finished = %t", phase, got)
		}
	}
}
