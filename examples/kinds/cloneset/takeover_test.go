package cloneset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestTakeOver creates the objects that OpenKruise 1.9 has left, starts the controller, and checks that no Pod,
// revision or claim is written. Then the halted rollout is completed in place.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, gates := range []string{"", "CloneSetShortHash=true"} { // the cluster was run with short hashes
		for _, state := range []string{"settled", "midway"} {
			t.Run(strings.TrimSpace(state+" "+gates), func(t *testing.T) {
				c := idle(t)
				controllertest.Restore(t, c, c.namespace, "testdata/openkruise-1.9/"+state+".yaml")
				before := identities(c.pods("web"))
				if len(before) != 3 || len(c.pods("old-api")) != 2 {
					t.Fatalf("restored %d and %d Pods, want 3 and 2", len(before), len(c.pods("old-api")))
				}
				parsed, err := manager.ParseGates(gates)
				if err != nil {
					t.Fatal(err)
				}
				offset := controllertest.End(t, c.cp.AuditLog())
				c.run(manager.Options{Gates: parsed})
				// OpenKruise leaves an old failure in the status. When the controller has removed the failure, the controller has
				// reconciled the CloneSet.
				for _, name := range []string{"web", "old-api"} {
					c.until(name, withoutCondition(apps.ConditionFailedUpdate))
				}
				c.create(c.cloneSet("witness", 2)) // by then any wrong write would have happened
				c.untouched(offset)
				if state == "midway" {
					c.continueRollout(before)
				}
			})
		}
	}
}

func withoutCondition(unwanted string) func(*v1beta1.CloneSet) error {
	return func(cs *v1beta1.CloneSet) error {
		if slices.ContainsFunc(cs.Status.Conditions, func(have v1beta1.Condition) bool { return have.Type == unwanted }) {
			return fmt.Errorf("CloneSet %s still has condition %s", cs.Name, unwanted)
		}
		return nil
	}
}

// untouched fails the test for every write to a Pod, revision or claim of the restored CloneSets.
func (c *cluster) untouched(offset int64) {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), offset, "kruise-manager/")
	for _, r := range requests {
		restored := strings.HasPrefix(r.Name, "web") || strings.HasPrefix(r.Name, "old-api") || strings.HasPrefix(r.Name, "data-")
		write := r.Verb != "get" && r.Verb != "list" && r.Verb != "watch"
		if r.Namespace == c.namespace && restored && write && !strings.HasPrefix(r.Resource, "clonesets") && r.Resource != "events" {
			c.t.Errorf("%s %s %s (%d)", r.Verb, r.Resource, r.Name, r.Code)
		}
	}
}

func (c *cluster) continueRollout(before map[types.UID]identity) {
	c.t.Helper()
	c.change("web", func(cs *v1beta1.CloneSet) {
		cs.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(0))
	})
	cs := c.until("web", settled)
	if cs.Status.UpdatedReplicas != 3 || cs.Status.CurrentRevision != "web-8594f6bd9" {
		c.t.Errorf("status after the rollout: %+v", cs.Status)
	}
	pods := c.pods("web")
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		c.t.Errorf("the continued rollout was not in place (-before +after):\n%s", diff)
	}
	for i := range pods {
		if image := pods[i].Spec.Containers[0].Image; image != "example.test/app:v3" || pods[i].Annotations["app-config"] != "two" {
			c.t.Errorf("Pod %s has image %s and app-config %q", pods[i].Name, image, pods[i].Annotations["app-config"])
		}
	}
}

// TestRevisionNameOfOpenKruise: a template that OpenKruise has rolled out gets the same revision name here, so that
// OpenKruise finds the revision after a return to OpenKruise.
func TestRevisionNameOfOpenKruise(t *testing.T) {
	t.Parallel()
	c := idle(t)
	controllertest.Restore(c.t, c, c.namespace, "testdata/openkruise-1.9/settled.yaml")
	var revisions appsv1.ControllerRevisionList
	if err := c.List(t.Context(), &revisions, client.InNamespace(c.namespace), client.MatchingLabels{"app": "web"}); err != nil {
		t.Fatal(err)
	}
	old := c.get(t.Context(), "web")
	for i := range revisions.Items {
		if err := c.Delete(t.Context(), &revisions.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	c.run(manager.Options{})
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		var rev appsv1.ControllerRevision
		return c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: old.Status.UpdateRevision}, &rev)
	})
}
