package statefulset_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// unclaimed removes the claim template and its mount.
func unclaimed(set *v1beta1.StatefulSet) {
	set.Spec.VolumeClaimTemplates, set.Spec.Template.Spec.Containers[0].VolumeMounts = nil, nil
}

func keep(n int32) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

// TestClaimTemplatesOfRevisions: a Pod that is recreated at an older revision gets the claims of that revision, even
// if the claim templates have changed since.
func TestClaimTemplatesOfRevisions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1beta1.StatefulSet){
		"removed": unclaimed,
		"renamed": func(set *v1beta1.StatefulSet) {
			set.Spec.VolumeClaimTemplates[0].Name, set.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "store", "store"
		},
		"larger, and another": func(set *v1beta1.StatefulSet) {
			more := set.Spec.VolumeClaimTemplates[0].DeepCopy()
			more.Name = "more"
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, *more)
			set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("7Gi")}
			setImage("example.test/app:v2")(set)
		},
	} {
		for _, lostClaim := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, claim lost %t", name, lostClaim), func(t *testing.T) {
				t.Parallel()
				c := start(t, "")
				c.create(c.statefulSet("db", 1, withClaims(c.volumes(2, "1Gi", nil), "1Gi"), keep(1)), 0)
				c.change("db", change)
				c.until("db", settled)
				c.lose(lostClaim)
				c.untilPods("db", 0)
				c.untilUses("db-0", "data-db-0")
				c.untilClaim(0, func(claim *corev1.PersistentVolumeClaim) error {
					if size := claim.Spec.Resources.Requests.Storage().String(); size != "1Gi" || claim.Labels["tier"] != "db" {
						return fmt.Errorf("claim %s asks for %s, labels %v", claim.Name, size, claim.Labels)
					}
					return nil
				})
			})
		}
	}
}

// lose deletes the Pod db-0, if claimToo is true also its claim, and waits for the new Pod.
func (c *cluster) lose(claimToo bool) {
	c.t.Helper()
	pod, claim := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
	pod.Namespace, pod.Name = c.namespace, "db-0"
	claim.Namespace, claim.Name = c.namespace, "data-db-0"
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		c.t.Fatal(err)
	}
	uid := pod.UID
	if claimToo {
		if err := c.Delete(c.t.Context(), claim); err != nil {
			c.t.Fatal(err)
		}
		body := []byte(`{"metadata":{"finalizers":null}}`) // the claim is deleted at once, even while a Pod uses it
		if err := c.Patch(c.t.Context(), claim, client.RawPatch(types.MergePatchType, body)); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.Delete(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		next := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), next); client.IgnoreNotFound(err) != nil {
			return err
		}
		if next.UID == uid {
			return errors.New("the Pod is still there")
		}
		return nil
	})
}

// untilUses waits until a Pod uses exactly the given claims.
func (c *cluster) untilUses(name string, claims ...string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, pod); err != nil {
			return err
		}
		if diff := cmp.Diff(claims, pvc.UsedBy(pod)); diff != "" {
			return fmt.Errorf("claims of Pod %s (-want +got):\n%s", name, diff)
		}
		return nil
	})
}

// forget removes the claim templates from the ControllerRevisions, because OpenKruise records no claim templates
// there.
func (c *cluster) forget() {
	c.t.Helper()
	var list appsv1.ControllerRevisionList
	if err := c.List(c.t.Context(), &list, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, apps.AnnotationClaimTemplates)
		if err := c.Patch(c.t.Context(), &list.Items[i], client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestClaimTemplatesOfRevisionsTakenOver: revisions that OpenKruise has written contain no claim templates. If the
// claim of a deleted Pod still exists, the new Pod gets this claim. Otherwise a condition reports the missing claim.
func TestClaimTemplatesOfRevisionsTakenOver(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	c.create(c.statefulSet("db", 1, withClaims(c.volumes(2, "1Gi", nil), "1Gi"), keep(1)), 0)
	c.forget()
	c.change("db", unclaimed)
	c.until("db", settled)
	c.lose(false)
	c.untilPods("db", 0)
	c.untilUses("db-0", "data-db-0")
	c.lose(true)
	c.until("db", func(set *v1beta1.StatefulSet) error {
		if failed := set.Status.Conditions.Find(apps.ConditionFailedCreatePod); failed == nil || failed.Reason != string(revision.ClaimTemplateUnknown) {
			return fmt.Errorf("condition %+v", failed)
		}
		return nil
	})
	c.change("db", keep(0))
	c.untilPods("db", 0)
	c.untilUses("db-0")
}

// TestPendingClaimOfOldRevision: if a Pod waits for a missing claim, the controller creates the claim from the
// template of the Pod's own revision.
func TestPendingClaimOfOldRevision(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	set := c.statefulSet("db", 1, withClaims(c.volumes(0, "1Gi", nil), "1Gi"), keep(1))
	set.Spec.Template.Spec.NodeSelector = map[string]string{"none": "such"}
	if err := c.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	c.untilUses("db-0", "data-db-0")
	c.change("db", unclaimed)
	c.until("db", func(set *v1beta1.StatefulSet) error {
		if set.Status.ObservedGeneration != set.Generation {
			return errors.New("the change has not been seen")
		}
		return nil
	})
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "data-db-0"}, claim); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), claim, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	c.untilClaim(0, func(again *corev1.PersistentVolumeClaim) error {
		if again.UID == claim.UID || ptr.Deref(again.Spec.StorageClassName, "") != *claim.Spec.StorageClassName {
			return fmt.Errorf("claim %s, was %s", again.UID, claim.UID)
		}
		return nil
	})
}

// withLogs adds a claim template without a mount.
func withLogs(set *v1beta1.StatefulSet) {
	logs := set.Spec.VolumeClaimTemplates[0].DeepCopy()
	logs.Name = "logs"
	set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, *logs)
}

// untilLacking waits until the condition reports Pods that lack the claim of a template. If template is empty,
// untilLacking waits until there is no such condition.
func (c *cluster) untilLacking(template, pod string) {
	c.t.Helper()
	c.until("db", func(set *v1beta1.StatefulSet) error {
		waiting := set.Status.Conditions.Find(apps.ConditionWaiting)
		switch {
		case template == "" && waiting == nil:
			return settled(set)
		case waiting == nil, waiting.Reason != string(podcontrol.ClaimsLacking), !strings.Contains(waiting.Message, "["+template+"]"), !strings.Contains(waiting.Message, pod):
			return fmt.Errorf("condition %+v", waiting)
		}
		return nil
	})
}

// TestAdoptedPodsLackClaims: adopted Pods that have fewer claims than the claim templates continue to run, and a
// condition names the missing claims. The next update recreates the Pods with all claims, as the partition allows.
func TestAdoptedPodsLackClaims(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	class := c.volumes(4, "1Gi", nil)
	c.create(c.statefulSet("db", 2, withClaims(class, "1Gi")), 0, 1)
	before := identities(c.untilPods("db", 0, 1))
	c.orphan("db")
	c.create(c.statefulSet("db", 2, withClaims(class, "1Gi"), withLogs), 0, 1)
	c.untilLacking("logs", "db-0")
	if diff := cmp.Diff(before, identities(c.untilPods("db", 0, 1))); diff != "" {
		t.Errorf("Pods (-before +after):\n%s", diff)
	}
	c.change("db", func(set *v1beta1.StatefulSet) { setImage("example.test/app:v2")(set); keep(1)(set) })
	c.until("db", settled)
	c.untilUses("db-1", "data-db-1", "logs-db-1")
	c.untilUses("db-0", "data-db-0")
	c.change("db", keep(0))
	c.untilLacking("", "")
	c.untilUses("db-0", "data-db-0", "logs-db-0")
	after := identities(c.untilPods("db", 0, 1))
	for uid := range before {
		if _, stayed := after[uid]; stayed {
			t.Errorf("Pod %s was not recreated", before[uid].Name)
		}
	}
}

// TestClaimTemplateAdded: a new claim template changes no Pod, and a condition reports the missing claims. With
// InPlaceOnly, updates do not recreate Pods because of missing claims.
func TestClaimTemplateAdded(t *testing.T) {
	t.Parallel()
	c := start(t, "")
	c.create(c.statefulSet("db", 1, withClaims(c.volumes(2, "1Gi", nil), "1Gi"), func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnly
	}), 0)
	before := identities(c.untilPods("db", 0))
	c.change("db", withLogs)
	c.untilLacking("logs", "db-0")
	c.change("db", setImage("example.test/app:v2"))
	c.until("db", settled)
	if diff := cmp.Diff(before, identities(c.untilPods("db", 0))); diff != "" {
		t.Errorf("Pods (-before +after):\n%s", diff)
	}
	c.untilLacking("logs", "db-0")
}
