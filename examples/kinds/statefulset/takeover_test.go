package statefulset_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const minute = time.Minute

// identity contains the fields of a Pod that an in-place update must not change.
type identity struct{ Name, Node, IP string }

func identities(pods []*corev1.Pod) map[types.UID]identity {
	out := map[types.UID]identity{}
	for _, pod := range pods {
		out[pod.UID] = identity{pod.Name, pod.Spec.NodeName, pod.Status.PodIP}
	}
	return out
}

// TestTakeOver creates the objects that OpenKruise 1.9 has left, starts the controller, and checks that no Pod,
// revision or claim is written. Then the halted rollout is completed in place.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"settled", "midway"} {
		t.Run(state, func(t *testing.T) {
			c := idle(t)
			controllertest.Restore(t, c, c.namespace, "testdata/openkruise-1.9/"+state+".yaml")
			pods, err := c.pods(t.Context(), "db")
			if err != nil || len(pods) != 3 {
				t.Fatalf("restored %d Pods, %v", len(pods), err)
			}
			before := identities(pods)
			offset := controllertest.End(t, c.cp.AuditLog())
			c.run("")
			c.create(c.statefulSet("witness", 2), 0, 1) // by then any wrong write would have happened
			c.until("db", settled)
			requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
			for _, r := range requests {
				if r.Namespace == c.namespace && strings.HasPrefix(r.Name, "db") && r.IsWrite() && !strings.HasPrefix(r.Resource, "statefulsets") && r.Resource != "events" {
					t.Errorf("%s %s %s (%d)", r.Verb, r.Resource, r.Name, r.Code)
				}
			}
			if state == "midway" {
				c.continueRollout(before)
			}
		})
	}
}

func (c *cluster) continueRollout(before map[types.UID]identity) {
	c.t.Helper()
	was, err := c.get(c.t.Context(), "db")
	if err != nil {
		c.t.Fatal(err)
	}
	c.change("db", func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](0) })
	c.until("db", func(set *v1beta1.StatefulSet) error {
		if set.Status.CurrentRevision != was.Status.UpdateRevision {
			return fmt.Errorf("current revision %s, want %s", set.Status.CurrentRevision, was.Status.UpdateRevision)
		}
		return settled(set)
	})
	pods, err := c.pods(c.t.Context(), "db")
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		c.t.Errorf("the continued rollout was not in place (-before +after):\n%s", diff)
	}
	for _, pod := range pods {
		if image := pod.Spec.Containers[0].Image; image != was.Spec.Template.Spec.Containers[0].Image {
			c.t.Errorf("Pod %s has image %s", pod.Name, image)
		}
	}
}

// orphan deletes a StatefulSet without its Pods, waits until the StatefulSet is deleted, and returns its last state.
func (c *cluster) orphan(name string) *v1beta1.StatefulSet {
	c.t.Helper()
	set, err := c.get(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.Delete(c.t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if _, err := c.get(ctx, name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
	return set
}

// TestAdoption: a new StatefulSet adopts the Pods and revisions that a deleted StatefulSet of the same name has left,
// and the Pods continue to run.
func TestAdoption(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	c.create(c.statefulSet("db", 2), 0, 1)
	before := identities(c.untilPods("db", 0, 1))
	set := c.orphan("db")
	c.create(c.statefulSet("db", 2), 0, 1)
	next, err := c.get(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, identities(c.untilPods("db", 0, 1))); diff != "" {
		t.Errorf("Pods (-before +after):\n%s", diff)
	}
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		var revisions appsv1.ControllerRevisionList
		if err := c.List(ctx, &revisions, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		for i := range revisions.Items {
			if !metav1.IsControlledBy(&revisions.Items[i], next) {
				return fmt.Errorf("revision %s has owners %+v", revisions.Items[i].Name, revisions.Items[i].OwnerReferences)
			}
		}
		if len(revisions.Items) != 1 || next.Status.UpdateRevision != set.Status.UpdateRevision {
			return fmt.Errorf("%d revisions, that of today is %s, was %s", len(revisions.Items), next.Status.UpdateRevision, set.Status.UpdateRevision)
		}
		return nil
	})
}
