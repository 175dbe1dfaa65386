package cli_test

import (
	"strings"
	"testing"
)

// firstCause returns the first line of the first cause.
func firstCause(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "1. ") {
			return strings.TrimSpace(line)
		}
	}
	return out
}

func TestWhy(t *testing.T) {
	tests := []struct {
		name      string
		manifests string
		manager   bool
		args      []string
		want      string // the first cause
	}{
		{"no controller", workload("CloneSet", "  replicas: 1"), false, []string{"cloneset/web"}, "1. controller: SpecUnobserved, CloneSet "},
		{
			"a quota", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small}\nspec: {hard: {pods: 1}}\n---\n" + workload("CloneSet", "  replicas: 3"), true,
			[]string{"cloneset/web"},
			"1. quota: QuotaExceeded, CloneSet ",
		},
		{
			"no Node fits", strings.Replace(workload("CloneSet", "  replicas: 1"), "terminationGracePeriodSeconds: 0", "nodeSelector: {disk: none}", 1), true,
			[]string{"cloneset/web"},
			"1. scheduler: ",
		},
		{"paused", workload("CloneSet", "  replicas: 2\n  updateStrategy: {rollingUpdate: {paused: true}}"), true, []string{"cloneset/web"}, "CloneSet web is healthy"},
		{"a crash", annotated("sim.workloadkit.io/crash: app"), true, []string{"cloneset/web"}, "1. runtime: CrashLoopBackOff, Pod "},
		{"an image that cannot be pulled", annotated("sim.workloadkit.io/broken-image: 'example.test/log:v1'"), true, []string{"cloneset/web"}, "1. runtime: ImagePullBackOff, Pod "},
		{"a readiness probe", annotated("sim.workloadkit.io/unready: app"), true, []string{"cloneset/web"}, "1. runtime: NotReady, Pod "},
		{
			"a hook before service", workload("CloneSet", "  replicas: 1\n  lifecycle: {preNormal: {labelsHandler: {example.test/registered: 'true'}}}"), true,
			[]string{"cloneset/web"},
			"1. hook: HookHolds, Pod ",
		},
		{
			"an invalid spec", strings.Replace(workload("CloneSet", "  replicas: 1"), "matchLabels: {app: web}", "matchLabels: {app: other}", 1), true,
			[]string{"cloneset/web"},
			"1. controller: ", // the first cause is not compared, because the test waits for the condition below
		},
		{
			"a finalizer", "apiVersion: v1\nkind: Pod\nmetadata: {name: alone, finalizers: [example.test/hold]}\nspec: {containers: [{name: a, image: b}]}", false,
			[]string{"alone"},
			"1. hook: FinalizerHolds, Pod ",
		},
		{
			"a job whose image cannot be pulled", `apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: clean}
spec:
  template:
    metadata: {annotations: {sim.workloadkit.io/broken-image: "*"}}
    spec: {restartPolicy: Never, containers: [{name: a, image: "example.test/a:v1"}]}
`, true, []string{"broadcastjob/clean"}, "1. runtime: ImagePullBackOff, Pod ",
		},
		{
			"an ordered StatefulSet, whose first Pod is not ready", strings.Replace(annotated("sim.workloadkit.io/unready: log"), "kind: CloneSet", "kind: StatefulSet", 1), true,
			[]string{"asts/web"},
			"1. runtime: NotReady, Pod ",
		},
		{
			"a request without an agent", `apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: a, image: b}]}
---
apiVersion: apps.kruise.io/v1beta1
kind: ContainerRecreateRequest
metadata: {name: again}
spec: {podName: alone, containers: [{name: a}]}
`, false, []string{"crr/again"}, "1. node: NotStarted, ContainerRecreateRequest ",
		},
		{
			"a scheduling gate", "apiVersion: v1\nkind: Pod\nmetadata: {name: alone}\nspec: {schedulingGates: [{name: example.test/wait}], containers: [{name: a, image: b}]}", false,
			[]string{"alone"},
			"1. scheduler: SchedulingGated, Pod ",
		},
		{
			"another scheduler", "apiVersion: v1\nkind: Pod\nmetadata: {name: alone}\nspec: {schedulerName: absent, containers: [{name: a, image: b}]}", false,
			[]string{"alone"},
			"1. scheduler: NotScheduled, Pod ",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t)
			if tt.manager {
				c.manage("CloneSet", "StatefulSet", "BroadcastJob")
			}
			c.apply(tt.manifests)
			if tt.name == "a finalizer" {
				if err := c.Delete(t.Context(), c.object("v1", "Pod", "alone")); err != nil {
					t.Fatal(err)
				}
				defer c.release("alone")
			}
			if tt.name == "an invalid spec" {
				c.eventually("status.conditions[InvalidSpec]", append([]string{"why"}, tt.args...)...)
			}
			a := c.eventually(tt.want, append([]string{"why"}, tt.args...)...)
			if got := firstCause(a.out); !strings.HasPrefix(got, tt.want) {
				t.Errorf("the first cause is %q, want %q\n%s", got, tt.want, a.out)
			}
			t.Log("\n" + a.out)
		})
	}
}

// annotated returns the manifest of a CloneSet whose simulated Pods have an annotation.
func annotated(annotation string) string {
	return strings.Replace(workload("CloneSet", "  replicas: 2"), "metadata: {labels: {app: web}}", "metadata: {labels: {app: web}, annotations: {"+annotation+"}}", 1)
}

// release removes the finalizers of a Pod.
func (c *cluster) release(name string) {
	c.t.Helper()
	pod := c.object("v1", "Pod", name)
	pod.SetFinalizers(nil)
	if err := c.Update(c.t.Context(), pod); err != nil {
		c.t.Error(err)
	}
}

func TestWhyNotEvicted(t *testing.T) {
	c := start(t)
	c.apply(`apiVersion: v1
kind: Pod
metadata: {name: alone, labels: {app: web}}
spec: {containers: [{name: a, image: b}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}`)
	c.eventually("an eviction would be refused: PodDisruptionBudget all allows", "why", "alone", "-o", "json")
	if out := c.want("why", "alone", "-o", "json"); !strings.Contains(out, `"healthy": true`) {
		t.Errorf("why -o json prints\n%s", out)
	}
	c.refused(1, "is not json, yaml, name or wide", "why", "alone", "-o", "xml")
	c.refused(1, "an object is required", "why")
}

func TestDoctorWithoutManager(t *testing.T) {
	c := start(t)
	a := c.refused(1, "WebhooksMissing", "doctor")
	t.Log("\n" + a.out)
}
