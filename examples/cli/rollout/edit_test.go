package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestEdits(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, object string
		edit         edit
		operation    string
		path         string
		want         any
		err          string
	}{
		{"KC-15 a CloneSet of v1alpha1", "{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet}", pause(true), "paused", "spec.updateStrategy.paused", true, ""},
		{"KC-15 a CloneSet of v1beta1", "{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet}", pause(true), "paused", "spec.updateStrategy.rollingUpdate.paused", true, ""},
		{"KC-15 a Rollout", "{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, spec: {strategy: {paused: true}}}", pause(false), "resumed", "spec.strategy.paused", false, ""},
		{"KC-15 already paused", "{apiVersion: apps/v1, kind: Deployment, spec: {paused: true}}", pause(true), "", "", nil, "is already paused"},
		{"a kind that cannot be paused", "{apiVersion: v1, kind: Pod}", pause(true), "", "", nil, "cannot be paused"},
		{
			"KC-16 a Deployment, by annotation", "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{name: a}]}}}}", restart(now), "restarted",
			"spec.template.metadata.annotations",
			fields.Object{restartedAt: "2026-03-01T12:00:00Z"},
			"",
		},
		{"KC-16 a paused Deployment", "{apiVersion: apps/v1, kind: Deployment, spec: {paused: true}}", restart(now), "", "", nil, "paused deployment"},
		{
			"KC-16 a CloneSet, by environment", "{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, spec: {template: {spec: {containers: [{name: a, env: [{name: RESTARTED_AT, value: x}, {name: b}]}]}}}}",
			restart(now), "restarted", "spec.template.spec.containers",
			[]any{fields.Object{"name": "a", "env": []any{fields.Object{"name": "RESTARTED_AT", "value": "2026-03-01T12:00:00Z"}, fields.Object{"name": "b"}}}},
			"",
		},
		{
			"5.8 a UnitedDeployment", "{apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, spec: {template: {cloneSetTemplate: {spec: {template: {spec: {containers: [{name: a}]}}}}}}}",
			restart(now), "restarted", "spec.template.cloneSetTemplate.spec.template.spec.containers",
			[]any{fields.Object{"name": "a", "env": []any{fields.Object{"name": "RESTARTED_AT", "value": "2026-03-01T12:00:00Z"}}}},
			"",
		},
		{"a job", "{apiVersion: apps.kruise.io/v1beta1, kind: BroadcastJob}", restart(now), "", "", nil, "cannot be restarted"},
		{
			"KC-17 canary", "{apiVersion: rollouts.kruise.io/v1alpha1, kind: Rollout, status: {canaryStatus: {currentStepState: StepPaused}}}", approve, "approved",
			"status.canaryStatus.currentStepState", "StepReady", "",
		},
		{
			"KC-17 blue-green", "{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, status: {blueGreenStatus: {currentStepState: StepPaused}}}", approve, "approved",
			"status.blueGreenStatus.currentStepState", "StepReady", "",
		},
		{"KC-17 another state", "{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, status: {canaryStatus: {currentStepState: Completed}}}", approve, "", "", nil, "Completed"},
		{"KC-17 another kind", "{apiVersion: apps/v1, kind: Deployment}", approve, "", "", nil, "is no Rollout"},
		{
			"KC-14 --fast", `{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, spec: {strategy: {blueGreen: {steps: [{replicas: 50%, traffic: 0%}, {replicas: 100%, traffic: 0%}, {replicas: 100%, traffic: 50%}]}}},
status: {blueGreenStatus: {currentStepIndex: 3}}}`, fastBack, "rolled back to step 2", "status.blueGreenStatus.nextStepIndex", int64(2), "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := object(t, tt.object)
			operation, err := tt.edit(u)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			got, _ := fields.At(u.Object, tt.path)
			if diff := cmp.Diff(tt.want, got); diff != "" || operation != tt.operation || err != nil {
				t.Errorf("%s, %v, %s (-want +got):\n%s", operation, err, tt.path, diff)
			}
		})
	}
}

func TestFastStep(t *testing.T) {
	step := func(replicas any, traffic string) fields.Object {
		return fields.Object{"replicas": replicas, "traffic": traffic}
	}
	tests := []struct {
		name    string
		steps   []fields.Object
		current int64
		want    int64
		isError bool
	}{
		{"KC-14 the example", []fields.Object{step("50%", "0%"), step("100%", "0%"), step("100%", "50%")}, 3, 2, false},
		{"KC-14 of equal steps the last", []fields.Object{step("50%", ""), step("50%", ""), step("100%", "1%")}, 3, 2, false},
		{"KC-14 the first step", []fields.Object{step("50%", "")}, 1, 0, true},
		{"KC-14 all steps have traffic", []fields.Object{step("50%", "5%"), step("50%", "9%")}, 2, 0, true},
	}
	for _, tt := range tests {
		got, err := fastStep(tt.steps, tt.current)
		if got != tt.want || (err != nil) != tt.isError {
			t.Errorf("%s: step %d, %v", tt.name, got, err)
		}
	}
}

func TestBack(t *testing.T) {
	revision := &appsv1.ControllerRevision{Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}}}}}`)}}
	u := object(t, "{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {resourceVersion: '1'}, spec: {replicas: 2, template: {metadata: {labels: {app: web, added: later}}}}}")
	for _, want := range []string{"rolled back", "skipped rollback (current template already matches revision 1)"} {
		if got, err := back(revision)(u); got != want || err != nil {
			t.Errorf("5.8 KC-10 %q, %v, want %q", got, err, want)
		}
	}
	if diff := cmp.Diff(fields.Object{"replicas": float64(2), "template": fields.Object{"metadata": fields.Object{"labels": fields.Object{"app": "web"}}}}, u.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestChoose(t *testing.T) {
	one, two := appsv1.ControllerRevision{Revision: 4}, appsv1.ControllerRevision{Revision: 9}
	if _, err := choose([]appsv1.ControllerRevision{one}, 0); err == nil {
		t.Error("KC-10 a single revision is gone back to")
	}
	if got, err := choose([]appsv1.ControllerRevision{one, two}, 0); err != nil || got.Revision != 4 {
		t.Errorf("KC-10 %v, %v", got, err)
	}
	if _, err := choose([]appsv1.ControllerRevision{one, two}, 5); err == nil {
		t.Error("KC-2 a missing revision is found")
	}
}
