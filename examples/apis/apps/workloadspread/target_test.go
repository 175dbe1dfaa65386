package workloadspread_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
)

func ExampleParseTargets() {
	targets, err := workloadspread.ParseTargets(`{"workloads":[{"Group":"batch.example.io","Version":"v1","Kind":"TrainJob",
		"replicasPath":"spec.worker.replicas","subResources":[{"Group":"batch.example.io","Version":"v1","Kind":"TrainPod"}]}]}`)
	fmt.Println(targets[0].GroupVersionKind, targets[0].ReplicasPath, targets[0].SubResources[0].Kind, err)
	// Output: batch.example.io/v1, Kind=TrainJob spec.worker.replicas TrainPod <nil>
}

func TestParseTargets(t *testing.T) {
	listed := workloadspread.Target{
		GroupVersionKind: schema.GroupVersionKind{Group: "a.io", Version: "v1", Kind: "Job"}, ReplicasPath: "spec.n",
		SubResources: []schema.GroupVersionKind{{Group: "a.io", Version: "v1", Kind: "Part"}},
	}
	for _, c := range []struct {
		name, text string
		want       []workloadspread.Target
		wrong      string
	}{
		{"WS 1.3 nothing", "", nil, ""},
		{"WS 1.3 capital letters", `{"workloads":[{"Group":"a.io","Version":"v1","Kind":"Job","replicasPath":"spec.n","subResources":[{"Group":"a.io","Version":"v1","Kind":"Part"}]}]}`, []workloadspread.Target{listed}, ""},
		{"WS 1.3 small letters", `{"workloads":[{"group":"a.io","version":"v1","kind":"Job","replicasPath":"spec.n","subResources":[{"group":"a.io","version":"v1","kind":"Part"}]}]}`, []workloadspread.Target{listed}, ""},
		{"WS-2 kinds that are allowed anyway", `{"workloads":[{"Group":"batch","Version":"v1","Kind":"Job"},{"Group":"apps.kruise.io","Version":"v1","Kind":"CloneSet"}]}`, nil, ""},
		{"WS 1.3 an entry without a kind", `{"workloads":[{"Group":"a.io","Version":"v1"}]}`, nil, "workloads[0]"},
		{"WS 1.4 malformed", `{`, nil, "no list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := workloadspread.ParseTargets(c.text)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v, want one with %q", err, c.wrong)
			}
		})
	}
}

// TestTargets checks the properties of the kinds that are always allowed as targets.
func TestTargets(t *testing.T) {
	got := map[string]string{}
	for _, kind := range []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps", Kind: "ReplicaSet"},
		{Group: "apps", Kind: "StatefulSet"},
		{Group: "apps", Kind: "DaemonSet"},
		{Group: "apps.kruise.io", Kind: "CloneSet"},
		{Group: "apps.kruise.io", Kind: "StatefulSet"},
		{Group: "apps.kruise.io", Kind: "Deployment"},
		{Group: "batch", Kind: "Job"},
		{Group: "batch", Kind: "CronJob"},
		{Group: "a.io", Kind: "StatefulSet"},
	} {
		target, ok := workloadspread.BuiltIn(kind)
		got[kind.String()] = fmt.Sprint(ok, target.ReplicasPath, workloadspread.IsNumbered(kind), workloadspread.HasCosts(kind), len(target.SubResources))
	}
	want := map[string]string{
		"Deployment.apps": "truespec.replicasfalse true 1", "ReplicaSet.apps": "truespec.replicasfalse true 0", "StatefulSet.apps": "truespec.replicastrue false 0",
		"DaemonSet.apps": "falsefalse false 0", "CloneSet.apps.kruise.io": "truespec.replicasfalse true 0", "StatefulSet.apps.kruise.io": "truespec.replicastrue false 0",
		"Deployment.apps.kruise.io": "falsefalse false 0", "Job.batch": "truespec.parallelismfalse false 0", "CronJob.batch": "falsefalse false 0", "StatefulSet.a.io": "falsefalse false 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
