package progress_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/progress"
	"github.com/workloadkit/workloadkit/reason"
)

func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// object parses a manifest of apps.kruise.io. The default version is v1beta1.
func object(t testing.TB, kind, body string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(body), &u.Object); err != nil {
		t.Fatal(err)
	}
	if u.GetAPIVersion() == "" {
		u.SetAPIVersion("apps.kruise.io/v1beta1")
	}
	u.SetKind(kind)
	u.SetName("web")
	u.SetGeneration(2)
	return u
}

func TestOf(t *testing.T) {
	tests := []struct {
		name, kind, body string
		want             progress.State
		code             reason.Code
		text             string
	}{
		{
			"KC-7 the generation is unobserved", "CloneSet", "{status: {observedGeneration: 1, updatedReplicas: 1, updatedReadyReplicas: 1, readyReplicas: 1}}",
			progress.Running, progress.SpecUnobserved, "Waiting for CloneSet spec update to be observed...",
		},
		{
			"KC-6 a percentage below 100% never keeps all: 10 x 95% keeps 9", "CloneSet",
			"{spec: {replicas: 10, updateStrategy: {rollingUpdate: {partition: '95%'}}}, status: {observedGeneration: 2, readyReplicas: 10}}",
			progress.Running, progress.PodsNotUpdated, `Waiting for CloneSet "web" rollout to finish: 0 out of 1 new pods have been updated...`,
		},
		{
			"KC-6 done with a partition, v1alpha1", "CloneSet",
			"{apiVersion: apps.kruise.io/v1alpha1, spec: {replicas: 5, updateStrategy: {type: InPlaceIfPossible, partition: 3}}, status: {observedGeneration: 2, updatedReplicas: 2, updatedReadyReplicas: 2, readyReplicas: 5, updateRevision: web-2}}",
			progress.Done, "", `CloneSet "web" partitioned roll out complete: 2 new pods have been updated, revision web-2`,
		},
		{
			"KC-7 Pods are not ready", "CloneSet", "{spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, updatedReadyReplicas: 1, readyReplicas: 1}}",
			progress.Running, progress.PodsNotReady, `Waiting for CloneSet "web" rollout to finish: 1 of 3 updated pods are ready...`,
		},
		{
			"old Pods count too", "CloneSet", "{spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {observedGeneration: 2, updatedReplicas: 1, updatedReadyReplicas: 1, readyReplicas: 2}}",
			progress.Running, progress.PodsNotReady, `Waiting for CloneSet "web" rollout to finish: 1 pods are not ready...`,
		},
		{
			"paused, v1alpha1", "CloneSet", "{apiVersion: apps.kruise.io/v1alpha1, spec: {replicas: 2, updateStrategy: {paused: true}}, status: {observedGeneration: 2, readyReplicas: 2}}",
			progress.Paused, progress.RolloutPaused, `CloneSet "web" is paused: 0 out of 2 new pods have been updated`,
		},
		{
			"paused after the end", "CloneSet", "{spec: {replicas: 1, updateStrategy: {rollingUpdate: {paused: true}}}, status: {observedGeneration: 2, updatedReplicas: 1, updatedReadyReplicas: 1, readyReplicas: 1}}",
			progress.Done, "", `CloneSet "web" successfully rolled out: 1 new pods have been updated`,
		},
		{
			"on delete", "CloneSet", "{spec: {replicas: 2, updateStrategy: {type: OnDelete}}, status: {observedGeneration: 2, readyReplicas: 2}}",
			progress.Paused, progress.UpdateOnDelete, `CloneSet "web" updates pods that are deleted: 0 out of 2 new pods have been updated`,
		},
		{
			"the deadline has passed", "CloneSet",
			"{spec: {replicas: 2}, status: {observedGeneration: 2, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: too slow}]}}",
			progress.Stuck, "ProgressDeadlineExceeded", `CloneSet "web" is stuck: ProgressDeadlineExceeded: status.conditions[Progressing]: too slow`,
		},
		{
			"an invalid spec", "StatefulSet", "{status: {observedGeneration: 2, conditions: [{type: InvalidSpec, status: 'True', reason: NoSelector, message: none}]}}",
			progress.Stuck, "NoSelector", `StatefulSet "web" is stuck: NoSelector: status.conditions[InvalidSpec]: none`,
		},
		{
			"a failure that has lasted", "StatefulSet",
			"{status: {observedGeneration: 2, conditions: [{type: FailedCreatePod, status: 'True', message: quota, lastTransitionTime: '2026-03-01T11:58:00Z'}]}}",
			progress.Stuck, "FailedCreatePod", `StatefulSet "web" is stuck: FailedCreatePod: status.conditions[FailedCreatePod]: quota`,
		},
		{
			"a new failure", "StatefulSet",
			"{status: {observedGeneration: 2, conditions: [{type: FailedCreatePod, status: 'True', message: quota, lastTransitionTime: '2026-03-01T11:59:30Z'}]}}",
			progress.Running, progress.PodsNotUpdated, `Waiting for StatefulSet "web" rollout to finish: 0 out of 1 new pods have been updated... (quota)`,
		},
		{
			"5.8 KC-9 RollingUpdate without its settings", "StatefulSet", "{spec: {replicas: 2, updateStrategy: {type: RollingUpdate}}, status: {observedGeneration: 2, updatedReplicas: 2, readyReplicas: 2}}",
			progress.Done, "", `StatefulSet "web" successfully rolled out: 2 new pods have been updated`,
		},
		{
			"KC-9 a partition", "StatefulSet", "{spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}, status: {observedGeneration: 2, updatedReplicas: 1, readyReplicas: 3}}",
			progress.Running, progress.PodsNotUpdated, `Waiting for StatefulSet "web" rollout to finish: 1 out of 2 new pods have been updated...`,
		},
		{
			"5.8 a DaemonSet", "DaemonSet", "{status: {observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}}",
			progress.Running, progress.PodsNotReady, `Waiting for DaemonSet "web" rollout to finish: 2 of 3 updated pods are ready...`,
		},
		{
			"5.8 a UnitedDeployment, by the partitions of its subsets", "UnitedDeployment",
			"{spec: {replicas: 4, updateStrategy: {manualUpdate: {partitions: {a: 1, b: 1}}}}, status: {observedGeneration: 2, updatedReplicas: 2, updatedReadyReplicas: 2, readyReplicas: 4}}",
			progress.Done, "", `UnitedDeployment "web" partitioned roll out complete: 2 new pods have been updated`,
		},
		{
			"a SidecarSet", "SidecarSet", "{status: {observedGeneration: 2, matchedPods: 4, updatedPods: 3, updatedReadyPods: 3, readyPods: 4}}",
			progress.Running, progress.PodsNotUpdated, `Waiting for SidecarSet "web" rollout to finish: 3 out of 4 new pods have been updated...`,
		},
		{
			"a SidecarSet that updates nothing", "SidecarSet", "{spec: {updateStrategy: {type: NotUpdate}}, status: {observedGeneration: 2, matchedPods: 4, readyPods: 4}}",
			progress.Done, "", `SidecarSet "web" partitioned roll out complete: 0 new pods have been updated`,
		},
		{"a job that runs", "BroadcastJob", "{status: {phase: running, desired: 3, active: 1, succeeded: 2, failed: 0}}", progress.Running, progress.JobRunning, `BroadcastJob "web": running, desired 3, active 1, succeeded 2, failed 0`},
		{"a job that has ended", "BroadcastJob", "{status: {phase: completed, desired: 1}}", progress.Done, "", `BroadcastJob "web": completed, desired 1`},
		{
			"a request that has failed in part", "ContainerRecreateRequest",
			"{status: {phase: Completed, completionTime: '2026-03-01T11:58:00Z', containerRecreateStates: [{name: app, phase: Failed, message: no stop}]}}",
			progress.Stuck, progress.JobFailed, `ContainerRecreateRequest "web": failed: container app: no stop`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := progress.Of(object(t, tt.kind, tt.body), 0, now())
			if err != nil {
				t.Fatal(err)
			}
			var code reason.Code
			if len(got.Why) > 0 {
				code = got.Why[0].Code
			}
			if diff := cmp.Diff([]string{string(tt.want), string(tt.code), tt.text}, []string{string(got.State), string(code), got.Text}); diff != "" {
				t.Errorf("state, code and text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfRefuses(t *testing.T) {
	if _, err := progress.Of(object(t, "WorkloadSpread", "{}"), 0, now()); err == nil {
		t.Error("a kind without rollouts is judged")
	}
	bad := object(t, "CloneSet", "{spec: {updateStrategy: {rollingUpdate: {partition: abc}}}, status: {observedGeneration: 2}}")
	if _, err := progress.Of(bad, 0, now()); err == nil {
		t.Error("a partition that is no number is read")
	}
}

func TestNative(t *testing.T) {
	u := object(t, "Deployment", "{apiVersion: apps/v1, spec: {paused: true}}")
	tests := []struct {
		name   string
		isDone bool
		failed error
		want   progress.State
	}{
		{"paused", false, nil, progress.Paused},
		{"done although paused", true, nil, progress.Done},
	}
	for _, tt := range tests {
		got, err := progress.Native(u, "text\n", tt.isDone, tt.failed)
		if err != nil || got.State != tt.want || got.Text != "text" {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	if _, err := progress.Native(u, "", false, errors.New("boom")); err == nil {
		t.Error("an error is swallowed")
	}
	late := object(t, "Deployment", "{apiVersion: apps/v1, status: {conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}}")
	if got, err := progress.Native(late, "", false, errors.New("exceeded")); err != nil || got.State != progress.Stuck {
		t.Errorf("KC-5 a passed deadline: %+v, %v", got, err)
	}
}

func TestExitCodes(t *testing.T) {
	got := map[progress.State]int{}
	for _, s := range []progress.State{progress.Done, progress.Stuck, progress.Running, progress.Paused} {
		got[s] = s.ExitCode()
	}
	if diff := cmp.Diff(map[progress.State]int{progress.Done: 0, progress.Stuck: 2, progress.Running: 3, progress.Paused: 4}, got); diff != "" {
		t.Errorf("exit codes (-want +got):\n%s", diff)
	}
}

// FuzzOf: for any object, the Progress has a text, and every state except Done has a reason.
func FuzzOf(f *testing.F) {
	f.Add("CloneSet", `{"spec":{"replicas":3},"status":{"observedGeneration":2,"updatedReplicas":1}}`)
	f.Add("SidecarSet", `{"status":{"observedGeneration":2,"matchedPods":"x"}}`)
	f.Add("BroadcastJob", `{"status":{"phase":"failed","conditions":[{"type":"Failed","status":"True"}]}}`)
	f.Add("UnitedDeployment", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"a.b":1}}}},"status":{"observedGeneration":2}}`)
	f.Fuzz(func(t *testing.T, kind, body string) {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		if yaml.Unmarshal([]byte(body), &u.Object) != nil || u.Object == nil {
			return
		}
		u.Object["apiVersion"], u.Object["kind"] = "apps.kruise.io/v1beta1", kind
		u.Object["metadata"] = map[string]any{"name": "web", "generation": int64(2)}
		p, err := progress.Of(u, 0, now())
		if err == nil && (p.Text == "" || p.State != progress.Done && len(p.Why) == 0) {
			t.Errorf("%s %s: %+v", kind, body, p)
		}
	})
}

// A rollout waits only for the Pods that the partition allows to be updated.
func ExampleOf() {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": int64(10), "updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": "80%"}},
		},
		"status": map[string]any{"updatedReplicas": int64(1), "updatedReadyReplicas": int64(1), "readyReplicas": int64(10)},
	}}
	p, err := progress.Of(u, 0, now())
	fmt.Println(p.State, p.State.ExitCode(), p.Text, err)
	// Output:
	// Running 3 Waiting for CloneSet "web" rollout to finish: 1 out of 2 new pods have been updated... <nil>
}
