package cli_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

func (c *cluster) pods() (names []string) {
	c.t.Helper()
	pods := &corev1.PodList{}
	if err := c.List(c.t.Context(), pods, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

func TestSet(t *testing.T) {
	c := start(t)
	c.apply(workload("CloneSet", "  replicas: 0"))
	c.apply(strings.ReplaceAll(workload("StatefulSet", "  replicas: 0\n  serviceName: web"), "name: web,", "name: db,"))
	containers := func() []fields.Object {
		return fields.List(c.object("apps.kruise.io/v1beta1", "CloneSet", "web").Object, "spec.template.spec.containers")
	}
	c.refused(1, "unable to find container", "set", "image", "cloneset/web", "none=x")
	c.refused(1, "all containers are already specified", "set", "image", "cloneset/web", "*=x", "app=y")
	if out := c.want("set", "env", "cloneset/web", "statefulsets.apps.kruise.io/db", "COLOUR=red", "-c", "app"); strings.Count(out, "env updated") != 2 {
		t.Errorf("KC-19 5.8 env of two objects prints %q", out)
	}
	if out := c.want("set", "env", "cloneset/web", "--list"); !strings.Contains(out, "COLOUR=red") {
		t.Errorf("KC-19 the list is %q", out)
	}
	c.refused(1, "already has a value", "set", "env", "cloneset/web", "COLOUR=blue", "--overwrite=false")
	c.want("set", "env", "cloneset/web", "COLOUR=blue", "--dry-run=client", "-o", "yaml")
	if env := fields.List(containers()[0], "env"); len(env) != 1 || fields.String(env[0], "value") != "red" {
		t.Errorf("5.8 a dry run has written %v", env)
	}
	c.want("set", "env", "cloneset/web", "COLOUR-")
	if env := fields.List(containers()[0], "env"); len(env) != 0 {
		t.Errorf("KC-19 the variable is still there: %v", env)
	}
	if out := c.want("set", "resources", "cloneset/web", "-c", "log", "--limits=cpu=200m", "--requests=cpu=0"); !strings.Contains(out, "resource requirements updated") {
		t.Errorf("KC-20 resources prints %q", out)
	}
	if got := fields.String(containers()[1], "resources.limits.cpu"); got != "200m" {
		t.Errorf("KC-20 the limit is %q", got)
	}
	c.want("set", "serviceaccount", "cloneset/web", "robot")
	if got := fields.String(c.object("apps.kruise.io/v1beta1", "CloneSet", "web").Object, "spec.template.spec.serviceAccountName"); got != "robot" {
		t.Errorf("the service account is %q", got)
	}
}

func TestExposeAndScale(t *testing.T) {
	c := start(t)
	c.apply(workload("CloneSet", "  replicas: 0"))
	if out := c.want("expose", "cloneset/web", "--name=front"); !strings.Contains(out, "exposed") {
		t.Errorf("KC-31 expose prints %q", out)
	}
	service := c.object("v1", "Service", "front")
	if ports := fields.List(service.Object, "spec.ports"); len(ports) != 1 || fields.Int(ports[0], "port") != 80 || fields.String(service.Object, "spec.selector.app") != "web" {
		t.Errorf("KC-31 5.8 the Service is %v", service.Object["spec"])
	}
	c.want("scale", "cloneset/web", "--replicas=2")
	if got := fields.Int(c.object("apps.kruise.io/v1beta1", "CloneSet", "web").Object, "spec.replicas"); got != 2 {
		t.Errorf("replicas are %d", got)
	}
}

func TestScaledown(t *testing.T) {
	c := start(t)
	c.manage("CloneSet")
	c.apply(workload("CloneSet", "  replicas: 5"))
	c.want("rollout", "status", "cloneset/web", "--timeout=2m")
	pods := c.pods()
	c.refused(1, "--pods is required", "scaledown", "cloneset/web")
	c.refused(1, "there is no Pod none", "scaledown", "cloneset/web", "--pods=none")
	a := c.do("scaledown", "cloneset/web", "--pods="+pods[0]+", "+pods[3])
	if a.code != 0 || !strings.Contains(a.errors, "# Pods to delete: "+pods[0]) || !strings.Contains(a.out, "selective pod deletion") {
		t.Fatalf("KC-26 scaledown: %+v", a)
	}
	controlplanetest.Eventually(t, minute, func(context.Context) error {
		if left := c.pods(); len(left) != 3 || slices.Contains(left, pods[0]) || slices.Contains(left, pods[3]) {
			return fmt.Errorf("KC-26 the Pods %q remain of %q", left, pods)
		}
		return nil
	})
}

func TestCreateJobs(t *testing.T) {
	c := start(t)
	c.apply(`apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 1 1 *"
  template:
    broadcastJobTemplate:
      metadata: {labels: {team: a}}
      spec:
        template:
          spec: {restartPolicy: Never, containers: [{name: clean, image: "example.test/clean:v1"}]}
`)
	c.want("create", "broadcastjob", "now", "--from=acj/nightly")
	job := c.object("apps.kruise.io/v1beta1", "BroadcastJob", "now")
	if job.GetAnnotations()["cronjob.kubernetes.io/instantiate"] != "manual" || job.GetLabels()["team"] != "a" || len(job.GetOwnerReferences()) != 1 {
		t.Errorf("KC-24 the job is %v", job.Object["metadata"])
	}
	c.refused(1, "no template for a Job", "create", "job", "other", "--from=acj/nightly")
	if out := c.want("create", "broadcastJob", "one", "--image=example.test/a:v1", "--", "sleep", "1"); out != "broadcastjob.apps.kruise.io/one created\n" {
		t.Errorf("KC-24 5.8 create prints %q", out)
	}
	c.want("create", "job", "plain", "--image=example.test/a:v1")
	c.refused(1, "either --image or --from must be specified", "create", "job", "plain")
	c.refused(1, "cannot specify --from and command", "create", "job", "x", "--from=acj/nightly", "--", "ls")
}

func TestCreateRequest(t *testing.T) {
	c := start(t)
	c.apply(`apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: app, image: "example.test/app:v1", lifecycle: {postStart: {sleep: {seconds: 1}}}}
  - {name: log, image: "example.test/log:v1", ports: [{containerPort: 1}]}
`)
	c.refused(1, `no container "none"`, "create", "crr", "again", "--pod=web", "--containers=none")
	c.refused(1, "not found", "create", "crr", "again", "--pod=none")
	c.want("create", "ContainerRecreateRequest", "again", "-p", "web", "--containers=log", "-u", "7", "-m", "9")
	crr := c.object("apps.kruise.io/v1beta1", "ContainerRecreateRequest", "again")
	list := fields.List(crr.Object, "spec.containers")
	if len(list) != 1 || fields.String(list[0], "name") != "log" || fields.Int(crr.Object, "spec.strategy.unreadyGracePeriodSeconds") != 7 ||
		fields.Int(crr.Object, "spec.strategy.minStartedSeconds") != 9 || fields.Int(crr.Object, "spec.activeDeadlineSeconds") != 300 {
		t.Errorf("KC-25 5.8 the request is %v", crr.Object["spec"])
	}
	c.want("create", "crr", "all", "--pod=web") // the container's lifecycle has no preStop hook
}

func TestMigrate(t *testing.T) {
	c := start(t)
	c.manage("CloneSet")
	c.apply(strings.NewReplacer("apps.kruise.io/v1beta1", "apps/v1").Replace(workload("Deployment", "  replicas: 3")))
	c.refused(1, "only CloneSet --from Deployment is supported", "migrate", "CloneSet")
	migrate := []string{"migrate", "CloneSet", "--from", "Deployment", "--src-name", "web", "--dst-name", "web2"}
	c.want(append(migrate, "--create")...)
	if got := fields.Int(c.object("apps.kruise.io/v1beta1", "CloneSet", "web2").Object, "spec.replicas"); got != 0 {
		t.Errorf("KC-28 5.8 without --copy the CloneSet has %d replicas", got)
	}
	c.refused(1, "already exists", append(migrate, "--create")...)
	if out := c.want(append(migrate, "--max-surge=2", "--timeout-seconds=120")...); !strings.Contains(out, "3 replicas moved") {
		t.Errorf("KC-29 migrate prints %q", out)
	}
	source, target := c.object("apps/v1", "Deployment", "web"), c.object("apps.kruise.io/v1beta1", "CloneSet", "web2")
	if fields.Int(source.Object, "spec.replicas") != 0 || fields.Int(target.Object, "spec.replicas") != 3 {
		t.Errorf("KC-29 the Deployment has %d replicas, the CloneSet %d", fields.Int(source.Object, "spec.replicas"), fields.Int(target.Object, "spec.replicas"))
	}
}

func TestGetAll(t *testing.T) {
	c := start(t)
	c.apply(workload("CloneSet", "  replicas: 4"))
	out := c.want("get", "all")
	if !strings.Contains(out, "clonesets.apps.kruise.io:\nNAME  DESIRED  UPDATED") || !strings.Contains(out, "web   4 ") {
		t.Errorf("KC-32 get all prints\n%s", out)
	}
	if out := c.want("get", "all", "-o", "name"); !strings.Contains(out, "cloneset.apps.kruise.io/web\n") {
		t.Errorf("get all -o name prints\n%s", out)
	}
	if out := c.want("get", "cloneset", "web", "-o", "jsonpath={.spec.replicas}"); out != "4" {
		t.Errorf("get prints %q", out)
	}
}
