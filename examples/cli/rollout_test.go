package cli_test

import (
	"strings"
	"testing"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// workload returns the manifest of a CloneSet, StatefulSet or DaemonSet named web with two containers.
func workload(kind, spec string) string {
	return `apiVersion: apps.kruise.io/v1beta1
kind: ` + kind + `
metadata: {name: web, annotations: {kubernetes.io/change-cause: first}}
spec:
  selector: {matchLabels: {app: web}}
` + spec + `
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: app, image: "example.test/app:v1", ports: [{containerPort: 80}]}
      - {name: log, image: "example.test/log:v1"}
`
}

func TestRollouts(t *testing.T) {
	tests := []struct{ kind, spec, name string }{
		{"CloneSet", "  replicas: 3\n  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 3}}", "cloneset/web"},
		{"StatefulSet", "  replicas: 2\n  podManagementPolicy: Parallel\n  serviceName: web", "statefulsets.apps.kruise.io/web"},
		{"DaemonSet", "  updateStrategy: {rollingUpdate: {maxUnavailable: 100%}}", "daemonsets.apps.kruise.io/web"},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			c := start(t)
			c.manage(tt.kind)
			c.apply(workload(tt.kind, tt.spec))
			done := c.want("rollout", "status", tt.name, "--timeout=2m")
			if !strings.Contains(done, "successfully rolled out") {
				t.Errorf("KC-4 status of a new %s ends with %q", tt.kind, done)
			}
			c.setsAndUndoes(tt.kind, tt.name)
			c.pausesAndRestarts(tt.kind, tt.name)
		})
	}
}

// setsAndUndoes changes images, and then undoes the changes.
func (c *cluster) setsAndUndoes(kind, name string) {
	c.t.Helper()
	image := func() string {
		containers := fields.List(c.object("apps.kruise.io/v1beta1", kind, "web").Object, "spec.template.spec.containers")
		return fields.String(containers[0], "image") + " " + fields.String(containers[1], "image")
	}
	if out := c.want("set", "image", name, "app=example.test/app:v2", "log=example.test/log:v2"); !strings.Contains(out, "image updated") {
		c.t.Errorf("A-14 KC-18 set image prints %q", out)
	}
	if got := image(); got != "example.test/app:v2 example.test/log:v2" {
		c.t.Errorf("A-14 KC-18 images are %s", got)
	}
	c.want("rollout", "status", name, "--timeout=2m")
	if out := c.want("rollout", "history", name); !strings.HasPrefix(out, strings.ToLower(kind)) || !strings.Contains(out, "REVISION") || !strings.Contains(out, "2") {
		c.t.Errorf("KC-2 history is\n%s", out)
	}
	if out := c.want("rollout", "history", name, "--revision=1"); !strings.Contains(out, "example.test/app:v1") {
		c.t.Errorf("KC-2 revision 1 is\n%s", out)
	}
	c.refused(1, "unable to find the specified revision", "rollout", "history", name, "--revision=99")
	c.refused(1, "revision must be a positive integer", "rollout", "history", name, "--revision=-1")
	if out := c.want("rollout", "undo", name, "--dry-run=client"); !strings.Contains(out, "example.test/app:v1") {
		c.t.Errorf("KC-10 a client's dry run prints\n%s", out)
	}
	c.want("rollout", "undo", name, "--dry-run=server")
	if got := image(); got != "example.test/app:v2 example.test/log:v2" {
		c.t.Errorf("KC-10 a dry run has changed the images to %s", got)
	}
	if out := c.want("rollout", "undo", name); !strings.Contains(out, "rolled back") {
		c.t.Errorf("A-12 KC-11 undo prints %q", out)
	}
	if got := image(); got != "example.test/app:v1 example.test/log:v1" {
		c.t.Errorf("A-12 KC-11 images after undo are %s", got)
	}
	c.want("rollout", "status", name, "--timeout=2m")
	c.refused(1, "unable to find the specified revision", "rollout", "undo", name, "--to-revision=99")
}

func (c *cluster) pausesAndRestarts(kind, name string) {
	c.t.Helper()
	if out := c.want("rollout", "pause", name); !strings.HasSuffix(strings.TrimSpace(out), "web paused") {
		c.t.Errorf("KC-15 pause prints %q", out)
	}
	c.refused(1, "is already paused", "rollout", "pause", name)
	if out := c.want("rollout", "restart", name); !strings.Contains(out, "restarted") {
		c.t.Errorf("KC-16 restart prints %q", out)
	}
	for _, container := range fields.List(c.object("apps.kruise.io/v1beta1", kind, "web").Object, "spec.template.spec.containers") {
		if env := fields.List(container, "env"); len(env) != 1 || fields.String(env[0], "name") != "RESTARTED_AT" {
			c.t.Errorf("KC-16 container %s has the environment %v", fields.String(container, "name"), env)
		}
	}
	c.eventually("is paused", "rollout", "status", name, "--timeout=5s")
	c.refused(4, "is paused", "rollout", "status", name, "--timeout=30s")
	c.want("rollout", "resume", name)
	c.refused(1, "is not paused", "rollout", "resume", name)
	c.want("rollout", "status", name, "--timeout=2m")
}

func TestStatusEnds(t *testing.T) {
	c := start(t)
	c.apply(workload("CloneSet", "  replicas: 2"))
	c.refused(3, "timed out after 2s", "rollout", "status", "cloneset/web", "--timeout=2s") // no manager runs
	c.refused(1, "required resource not specified", "rollout", "status")
	c.refused(1, "not found", "rollout", "status", "cloneset/none")
	if a := c.do("rollout", "status", "cloneset/web", "--watch=false"); a.code != 3 || strings.Count(a.out, "\n") != 1 {
		t.Errorf("KC-4 without --watch: exit code %d, output %q", a.code, a.out)
	}
	c.manage("CloneSet")
	out := c.want("rollout", "status", "cloneset/web", "--detail", "--timeout=2m")
	if !strings.Contains(out, "updated, ready: [web-") {
		t.Errorf("KC-8 the detail is\n%s", out)
	}
	watched := c.want("rollout", "watch", "cloneset/web", "--timeout=1m")
	if !strings.Contains(watched, "POD ") || !strings.Contains(watched, "Running") {
		t.Errorf("the table is\n%s", watched)
	}
}

// TestWatchUnitedDeployment: the table has the Pods of all subsets, although other workloads control the Pods.
func TestWatchUnitedDeployment(t *testing.T) {
	c := start(t)
	c.apply(`apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata:
  name: zoned
spec:
  replicas: 2
  selector: {matchLabels: {app: zoned}}
  template:
    statefulSetTemplate:
      metadata: {labels: {app: zoned}}
      spec:
        selector: {matchLabels: {app: zoned}}
        serviceName: zoned
        template:
          metadata: {labels: {app: zoned}}
          spec: {containers: [{name: app, image: "example.test/app:v1"}]}
  topology:
    subsets: [{name: a}, {name: b}]
`)
	c.manage("UnitedDeployment")
	watched := c.want("rollout", "watch", "uniteddeployment/zoned", "--timeout=2m")
	for _, subset := range []string{"zoned-a-", "zoned-b-"} {
		if !strings.Contains(watched, subset) {
			t.Errorf("subset %s has no Pod in\n%s", subset, watched)
		}
	}
}
