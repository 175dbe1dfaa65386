package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

func TestClaims(t *testing.T) {
	behave(t, "", nil, []behaviour{
		{"C-10 an old Pod after its claim template was removed", func(c *cluster) { oldClaims(c, "removed", withoutClaims) }},
		{"C-10 an old Pod after its claim template was renamed", func(c *cluster) { oldClaims(c, "renamed", renamedClaims) }},
		{"C-10 an old Pod after its claim template has become larger and another was added", func(c *cluster) { oldClaims(c, "added", moreClaims) }},
		{"C-10 an old Pod of a revision without claim templates", oldWithoutClaims},
		{"C-10 an old Pod of a revision that somebody else has written", takenOverClaims},
		{"C-10 an old Pod whose claim template nobody knows", unknownClaims},
		{"C-37 what is written down of claim templates follows them without a new revision", recordFollows},
		{"C-9 the claim of a Pod that has not started is made again", pendingClaim},
		{"C-36 with reuse, the Pod that is waited for is named", reuseAwaits},
		{"C-4 Pods that match and are not adopted are told of", orphansAreTold},
		{"C-4 so are those that an earlier owner has left, with other claims", leftPodsAreTold},
	})
}

// withoutClaims removes the claim template and all its mounts.
func withoutClaims(cs *v1beta1.CloneSet) {
	cs.Spec.VolumeClaimTemplates, cs.Spec.Template.Spec.Volumes, cs.Spec.Template.Spec.Containers[0].VolumeMounts = nil, nil, nil
}

func renamedClaims(cs *v1beta1.CloneSet) {
	cs.Spec.Template.Spec.Volumes = nil
	cs.Spec.VolumeClaimTemplates[0].Name, cs.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "store", "store"
}

// moreClaims adds claim templates for which no PersistentVolumes exist. A Pod with such claims cannot start.
func moreClaims(cs *v1beta1.CloneSet) {
	setImage(0, "example.test/app:v2")(cs)
	more := cs.Spec.VolumeClaimTemplates[0].DeepCopy()
	more.Name = "more"
	cs.Spec.VolumeClaimTemplates = append(cs.Spec.VolumeClaimTemplates, *more)
	cs.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("7Gi")}
}

func keepAll(cs *v1beta1.CloneSet) {
	rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = new(intstr.FromString("100%")) })(cs)
}

// mounted gives each Pod a PersistentVolumeClaim, and removes the volumes of the Pod template, because such a volume
// could hide a missing claim.
func (c *cluster) mounted(volumes int) func(*v1beta1.CloneSet) {
	return both(c.withClaims(volumes), func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Volumes = nil })
}

// claimed waits for n available Pods, each using exactly the claims of the given templates.
func (c *cluster) claimed(name string, n int, templates ...string) {
	c.t.Helper()
	c.until(name, settled)
	c.untilPods(name, func(pods []corev1.Pod) error {
		for i := range pods {
			var want []string
			for _, template := range templates {
				want = append(want, pvc.Name(template, pods[i].Name))
			}
			if diff := cmp.Diff(want, pvc.UsedBy(&pods[i])); diff != "" {
				return fmt.Errorf("claims of Pod %s (-want +got):\n%s", pods[i].Name, diff)
			}
		}
		return count(n)(pods)
	})
}

func oldClaims(c *cluster, name string, change func(*v1beta1.CloneSet)) {
	c.create(c.cloneSet(name, 1, c.mounted(3), keepAll))
	lost := c.pods(name)[0]
	c.change(name, both(change, setReplicas(2)))
	c.claimed(name, 2, "data")
	if err := c.Delete(c.t.Context(), &lost); err != nil {
		c.t.Fatal(err)
	}
	c.untilGone(lost.Name)
	c.claimed(name, 2, "data")
	for _, claim := range c.claims(name) {
		if size := claim.Spec.Resources.Requests.Storage().String(); size != "1Gi" || claim.Labels["tier"] != "store" {
			c.t.Errorf("claim %s asks for %s, labels %v", claim.Name, size, claim.Labels)
		}
	}
}

func oldWithoutClaims(c *cluster) {
	c.create(c.cloneSet("without", 1, keepAll))
	c.change("without", both(c.withClaims(0), setReplicas(2)))
	c.claimed("without", 2)
}

// forget removes the claim templates from the ControllerRevisions, because OpenKruise records no claim templates
// there.
func (c *cluster) forget(name string) {
	c.t.Helper()
	for _, rev := range c.revisions(c.get(c.t.Context(), name)) {
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, apps.AnnotationClaimTemplates)
		if err := c.Patch(c.t.Context(), &rev, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			c.t.Fatal(err)
		}
	}
}

func takenOverClaims(c *cluster) {
	c.create(c.cloneSet("taken", 1, c.mounted(2), keepAll))
	c.forget("taken")
	c.change("taken", both(withoutClaims, setReplicas(2)))
	c.claimed("taken", 2, "data")
}

func unknownClaims(c *cluster) {
	c.create(c.cloneSet("unknown", 1, c.mounted(2), keepAll))
	c.forget("unknown")
	pod := c.pods("unknown")[0]
	c.change("unknown", withoutClaims)
	c.until("unknown", settled)
	if err := c.Delete(c.t.Context(), &pod); err != nil { // without reuse, the Pod's claim is deleted, too
		c.t.Fatal(err)
	}
	const why = string(revision.ClaimTemplateUnknown)
	c.until("unknown", hasCondition(apps.ConditionFailedScale, corev1.ConditionTrue, why, "data", "spec.volumeClaimTemplates", "partition"))
	c.change("unknown", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = nil }))
	c.claimed("unknown", 1)
}

func recordFollows(c *cluster) {
	cs := c.create(c.cloneSet("follows", 1, c.mounted(2), keepAll))
	first := c.pods("follows")[0].Labels[apps.LabelInstanceID]
	c.change("follows", func(cs *v1beta1.CloneSet) { cs.Spec.VolumeClaimTemplates[0].Labels["tier"] = "other" })
	c.until("follows", observed)
	if got := c.until("follows", settled).Status.UpdateRevision; got != cs.Status.UpdateRevision {
		c.t.Errorf("revision %s, was %s", got, cs.Status.UpdateRevision)
	}
	c.change("follows", both(withoutClaims, setReplicas(2)))
	c.claimed("follows", 2, "data")
	for id, claim := range c.claims("follows") {
		if id != first && claim.Labels["tier"] != "other" {
			c.t.Errorf("claim %s has labels %v", claim.Name, claim.Labels)
		}
	}
}

func pendingClaim(c *cluster) {
	nowhere := func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.NodeSelector = map[string]string{"none": "such"} }
	if err := c.Create(c.t.Context(), c.cloneSet("pending", 1, c.mounted(0), nowhere, keepAll)); err != nil {
		c.t.Fatal(err)
	}
	pod := c.untilPods("pending", count(1))[0]
	again := func() {
		c.t.Helper()
		before := c.claims("pending")[pod.Labels[apps.LabelInstanceID]]
		if err := c.Delete(c.t.Context(), &before); err != nil {
			c.t.Fatal(err)
		}
		controlplanetest.Eventually(c.t, 30*time.Second, func(context.Context) error {
			after := c.claims("pending")[pod.Labels[apps.LabelInstanceID]]
			if after.UID == before.UID || after.UID == "" {
				return errors.New("the claim has not been made again")
			}
			if diff := cmp.Diff(before.Labels, after.Labels); diff != "" || len(after.OwnerReferences) != 1 {
				return fmt.Errorf("labels (-before +after):\n%s; owners %+v", diff, after.OwnerReferences)
			}
			return nil
		})
	}
	again()
	c.change("pending", renamedClaims) // the Pod waits for a claim of its own revision
	c.until("pending", observed)
	again()
	if live := c.pod(pod.Name); live.UID != pod.UID || live.DeletionTimestamp != nil {
		c.t.Error("the Pod was replaced")
	}
}

// reuseAwaits checks that the name and the claim of a deleted Pod are used again only after the Pod's finalizer was
// removed.
func reuseAwaits(c *cluster) {
	c.create(c.cloneSet("awaits", 1, c.mounted(1), func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.EnablePVCReuse = true }))
	pod := c.pods("awaits")[0]
	c.patchPod(pod.Name, `{"metadata":{"finalizers":["example.test/hold"]}}`)
	if err := c.Delete(c.t.Context(), &pod); err != nil {
		c.t.Fatal(err)
	}
	c.until("awaits", hasCondition(apps.ConditionWaiting, corev1.ConditionTrue, string(pvc.NameAwaited), pod.Name, "example.test/hold"))
	c.patchPod(pod.Name, `{"metadata":{"finalizers":null}}`)
	c.claimed("awaits", 1, "data")
	c.until("awaits", withoutCondition(apps.ConditionWaiting))
	if next := c.pods("awaits")[0]; next.Name != pod.Name || next.UID == pod.UID {
		c.t.Errorf("Pod %s took the place of %s", next.Name, pod.Name)
	}
}

func orphansAreTold(c *cluster) {
	for _, name := range []string{"orphans-b", "orphans-a"} {
		orphan := &corev1.Pod{Spec: *c.cloneSet("orphans", 0).Spec.Template.Spec.DeepCopy()}
		orphan.Namespace, orphan.Name, orphan.Labels = c.namespace, name, map[string]string{"app": "orphans"}
		if err := c.Create(c.t.Context(), orphan); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.Create(c.t.Context(), c.cloneSet("orphans", 0)); err != nil {
		c.t.Fatal(err)
	}
	c.untilEvent("orphans", apps.EventOrphansNotAdopted, ": 2, the first is orphans-a")
}

// leftPodsAreTold creates a CloneSet with the name of a deleted CloneSet whose Pods and revision still exist. The new
// CloneSet uses the revision, but does not adopt the Pods. An event reports the Pods.
func leftPodsAreTold(c *cluster) {
	cs := c.create(c.cloneSet("left", 1, c.mounted(2)))
	pod := c.pods("left")[0]
	if err := c.Delete(c.t.Context(), cs, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(cs), &v1beta1.CloneSet{})
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
	next := c.create(c.cloneSet("left", 1, c.mounted(0), func(cs *v1beta1.CloneSet) { cs.Spec.VolumeClaimTemplates[0].Labels["tier"] = "other" }))
	c.untilEvent("left", apps.EventOrphansNotAdopted, ": 1, the first is "+pod.Name)
	if next.Status.UpdateRevision != cs.Status.UpdateRevision {
		c.t.Errorf("revision %s, want that which was left, %s", next.Status.UpdateRevision, cs.Status.UpdateRevision)
	}
	if live := c.pod(pod.Name); len(live.OwnerReferences) > 0 {
		c.t.Errorf("owners %+v", live.OwnerReferences)
	}
}
