package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

func TestScale(t *testing.T) {
	behave(t, "", nil, []behaviour{
		{"C-7 names, labels, owner, state and gate of a new Pod", newPods},
		{"C-8 C-16 up and down keep the other Pods", upAndDown},
		{"scale subresource with the selector in the status", scaleSubresource},
		{"C-4 a Pod that stops matching is released and replaced", releasePod},
		{"C-9 C-31 claims come and go with their Pod", claimsFollowPods},
		{"C-36 without reuse a lost Pod's claim goes", func(c *cluster) { lostPod(c, "no-reuse", false) }},
		{"C-36 with reuse the next Pod gets the lost one's claim", func(c *cluster) { lostPod(c, "reuse", true) }},
		{"C-10 old and new Pods on scale-out with a partition", scaleOutWithPartition},
		{"C-15 a limit on unavailable Pods holds back creations", scaleLimit},
		{"C-15 a limit of zero does not hold back updates", scaleLimitZero},
		{"C-17 specified by label within the budget", deleteByLabel},
		{"C-17 C-55 specified by name within the budget, names removed", deleteByName},
		{"C-17 a Pod that is not ready needs no budget", deleteUnready},
		{"C-23 deletion cost", deletionCost},
		{"C-23 a Pod that is not ready goes first", unreadyFirst},
		{"C-30 a Pod in PreparingDelete counts", func(c *cluster) { preparingDelete(c, "counted", false) }},
		{"C-30 a Pod in PreparingDelete is replaced at once", func(c *cluster) { preparingDelete(c, "excluded", true) }},
		{"C-3 a failed Pod is replaced and not deleted", failedPod},
	})
}

func newPods(c *cluster) {
	cs := c.create(c.cloneSet("identity", 2))
	pattern := regexp.MustCompile(`^identity-([bcdfghjklmnpqrstvwxz2456789]{5})$`)
	for _, pod := range c.pods("identity") {
		match := pattern.FindStringSubmatch(pod.Name)
		if match == nil {
			c.t.Errorf("name %s", pod.Name)
			continue
		}
		want := map[string]string{
			"app": "identity", apps.LabelInstanceID: match[1], apps.LabelRevision: cs.Status.UpdateRevision,
			apps.LabelPodTemplateHash: cs.Status.UpdateRevision[len("identity-"):], apps.LabelLifecycleState: apps.LifecycleNormal,
		}
		delete(pod.Labels, corev1.LabelTopologyZone) // the scheduler has set this label
		if diff := cmp.Diff(want, pod.Labels); diff != "" {
			c.t.Errorf("labels (-want +got):\n%s", diff)
		}
		yes := true
		owner := []metav1.OwnerReference{{
			APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "identity", UID: cs.UID, Controller: &yes, BlockOwnerDeletion: &yes,
		}}
		if diff := cmp.Diff(owner, pod.OwnerReferences); diff != "" {
			c.t.Errorf("owner (-want +got):\n%s", diff)
		}
		gates := []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}, {ConditionType: apps.ConditionKruisePodReady}}
		if diff := cmp.Diff(gates, pod.Spec.ReadinessGates); diff != "" {
			c.t.Errorf("readiness gates (-want +got):\n%s", diff)
		}
		if !gate(&pod, corev1.ConditionTrue) {
			c.t.Errorf("the gate of a new Pod is not open: %+v", pod.Status.Conditions)
		}
	}
	c.untilEvent("identity", apps.EventSuccessfulCreate, "created 2 Pods", cs.Status.UpdateRevision)
}

func upAndDown(c *cluster) {
	c.create(c.cloneSet("updown", 2))
	before := identities(c.pods("updown"))
	c.change("updown", setReplicas(5))
	c.until("updown", settled)
	after := identities(c.pods("updown"))
	for uid := range before {
		if _, ok := after[uid]; !ok {
			c.t.Errorf("Pod %s did not survive the scale-out", before[uid].Name)
		}
	}
	c.change("updown", setReplicas(1))
	c.until("updown", settled)
	for uid := range identities(c.pods("updown")) {
		if _, ok := after[uid]; !ok {
			c.t.Error("scale-in made a new Pod")
		}
	}
	c.change("updown", setReplicas(0))
	c.until("updown", settled)
	c.untilPods("updown", count(0))
}

func scaleSubresource(c *cluster) {
	c.create(c.cloneSet("scaled", 1))
	d, err := discovery.NewDiscoveryClientForConfig(c.cp.Config())
	if err != nil {
		c.t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(d)
	if err != nil {
		c.t.Fatal(err)
	}
	scales, err := scale.NewForConfig(c.cp.Config(), restmapper.NewDiscoveryRESTMapper(groups),
		dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(d))
	if err != nil {
		c.t.Fatal(err)
	}
	resource := v1beta1.GroupVersion.WithResource("clonesets").GroupResource()
	got, err := scales.Scales(c.namespace).Get(c.t.Context(), resource, "scaled", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(autoscalingv1.ScaleStatus{Replicas: 1, Selector: "app=scaled"}, got.Status); diff != "" {
		c.t.Errorf("scale status (-want +got):\n%s", diff)
	}
	got.Spec.Replicas = 3
	if _, err := scales.Scales(c.namespace).Update(c.t.Context(), resource, got, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	cs := c.until("scaled", func(cs *v1beta1.CloneSet) error { return errors.Join(wantReplicas(cs, 3), settled(cs)) })
	if cs.Status.LabelSelector != "app=scaled" {
		c.t.Errorf("status.labelSelector is %q", cs.Status.LabelSelector)
	}
}

func wantReplicas(cs *v1beta1.CloneSet, n int32) error {
	if *cs.Spec.Replicas != n {
		return fmt.Errorf("%d replicas, want %d", *cs.Spec.Replicas, n)
	}
	return nil
}

func releasePod(c *cluster) {
	c.create(c.cloneSet("release", 2))
	gone, kept := c.pods("release")[0], c.pods("release")[1]
	since := c.mark()
	c.label(gone.Name, "app", "elsewhere")
	pods := c.untilPods("release", count(2))
	c.until("release", settled)
	if pods[0].UID != kept.UID && pods[1].UID != kept.UID {
		c.t.Error("the Pod that still matches is gone")
	}
	released := c.untilPod(gone.Name, func(pod *corev1.Pod) error {
		if ref := metav1.GetControllerOf(pod); ref != nil {
			return fmt.Errorf("still owned by %s", ref.Name)
		}
		return nil
	})
	if released.UID != gone.UID || released.DeletionTimestamp != nil || len(released.OwnerReferences) != 0 {
		c.t.Errorf("released Pod: %+v", released.ObjectMeta)
	}
	want := map[string]int{"patch pods": 1, "create pods": 1, "patch pods/status": 1}
	c.wantWrites("writes", "release", since, want)
}

// withClaims gives every Pod a claim in place of the template's volume. The claim is bound to a volume that this
// function creates beforehand.
func (c *cluster) withClaims(volumes int) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		class := c.namespace + "-" + cs.Name
		for i := range volumes {
			pv := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class, i)},
				Spec: corev1.PersistentVolumeSpec{
					Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
					PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
				},
			}
			if err := c.Create(c.t.Context(), pv); err != nil {
				c.t.Fatal(err)
			}
			c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), pv) })
		}
		cs.Spec.Template.Spec.Volumes = []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
		cs.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		cs.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "store"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
	}
}

// claims returns the CloneSet's claims by instance id, without terminating claims.
func (c *cluster) claims(name string) map[string]corev1.PersistentVolumeClaim {
	c.t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := c.List(c.t.Context(), &list, client.InNamespace(c.namespace), client.MatchingLabels{"app": name}); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		if claim.DeletionTimestamp == nil {
			out[claim.Labels[apps.LabelInstanceID]] = claim
		}
	}
	return out
}

func claimsFollowPods(c *cluster) {
	cs := c.create(c.cloneSet("claims", 2, c.withClaims(2)))
	claims := c.claims("claims")
	for _, pod := range c.pods("claims") {
		id := pod.Labels[apps.LabelInstanceID]
		claim := claims[id]
		if claim.Name != "data-claims-"+id || !metav1.IsControlledBy(&claim, cs) {
			c.t.Errorf("claim of Pod %s: %+v", pod.Name, claim.ObjectMeta)
		}
		want := map[string]string{"app": "claims", "tier": "store", apps.LabelInstanceID: id}
		if diff := cmp.Diff(want, claim.Labels); diff != "" {
			c.t.Errorf("labels of the claim (-want +got):\n%s", diff)
		}
		volumes := map[string]string{}
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				volumes[volume.Name] = volume.PersistentVolumeClaim.ClaimName
			}
		}
		if diff := cmp.Diff(map[string]string{"data": claim.Name}, volumes); diff != "" {
			c.t.Errorf("volumes that are claims (-want +got):\n%s", diff)
		}
	}
	// The reuse setting has no effect on Pods that the controller itself deletes.
	c.change("claims", both(setReplicas(1), func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.EnablePVCReuse = true }))
	c.until("claims", settled)
	kept := c.pods("claims")[0]
	controlplanetest.Eventually(c.t, 30*time.Second, func(context.Context) error {
		claims := c.claims("claims")
		if _, ok := claims[kept.Labels[apps.LabelInstanceID]]; !ok || len(claims) != 1 {
			return fmt.Errorf("%d claims are left, want the one of %s", len(claims), kept.Name)
		}
		return nil
	})
}

// lostPod deletes a Pod as a user.
func lostPod(c *cluster, name string, reuse bool) {
	c.create(c.cloneSet(name, 1, c.withClaims(2), func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.EnablePVCReuse = reuse }))
	lost := c.pods(name)[0]
	id := lost.Labels[apps.LabelInstanceID]
	before := c.claims(name)[id]
	if err := c.Delete(c.t.Context(), &lost); err != nil {
		c.t.Fatal(err)
	}
	pods := c.untilPods(name, func(pods []corev1.Pod) error {
		if len(pods) != 1 || pods[0].UID == lost.UID {
			return errors.New("the Pod has not been replaced yet")
		}
		return nil
	})
	c.until(name, settled)
	if reuse {
		replicas := 1
		if pods[0].Labels[apps.LabelInstanceID] != id {
			// The first new Pod was created while the lost Pod still existed, so only the second new Pod gets the
			// lost Pod's claim.
			replicas = 2
			c.change(name, setReplicas(2))
			pods = c.untilPods(name, count(2))
			c.until(name, settled)
		}
		after := c.claims(name)
		heirs := slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.Labels[apps.LabelInstanceID] != id })
		if len(heirs) != 1 || len(after) != replicas || after[id].UID != before.UID {
			c.t.Errorf("%d Pods have the id of %s, with %d claims for %d Pods", len(heirs), lost.Name, len(after), replicas)
		}
		return
	}
	if pods[0].Labels[apps.LabelInstanceID] == id {
		c.t.Errorf("Pod %s has the id of the lost one", pods[0].Name)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(context.Context) error {
		if _, ok := c.claims(name)[id]; ok {
			return fmt.Errorf("claim %s is still there", before.Name)
		}
		return nil
	})
}

func scaleOutWithPartition(c *cluster) {
	c.create(c.cloneSet("outpart", 5, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.Partition, ru.MaxUnavailable = new(intstr.FromString("40%")), new(intstr.FromInt32(5))
	})))
	c.change("outpart", setImage(0, "example.test/app:v2"))
	c.until("outpart", settled)
	c.untilPods("outpart", images(map[string]int{"v1": 2, "v2": 3}))
	before := identities(c.pods("outpart"))
	c.change("outpart", setReplicas(10))
	c.until("outpart", settled)
	pods := c.untilPods("outpart", images(map[string]int{"v1": 4, "v2": 6}))
	kept := 0
	for uid := range identities(pods) {
		if _, ok := before[uid]; ok {
			kept++
		}
	}
	if kept != 5 {
		c.t.Errorf("%d of 5 Pods survived the scale-out", kept)
	}
	for i := range pods {
		if n := pods[i].Status.ContainerStatuses[0].RestartCount; before[pods[i].UID].Name == "" && n != 0 {
			c.t.Errorf("new Pod %s was updated %d times after its creation", pods[i].Name, n)
		}
	}
}

func scaleLimit(c *cluster) {
	cs := c.cloneSet("limited", 5, templateAnnotation(controlplane.StartDelay, "1s"), func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromString("40%"))
	})
	w := c.watch("limited", limits{minReady: 0, maxPods: 5})
	c.create(cs)
	c.untilEvent("limited", apps.EventScaleUpLimited, "2 of 5 missing Pods are created now")
	ready, pods := map[types.UID]bool{}, map[types.UID]bool{}
	for _, e := range w.Events() {
		if e.Pod.Labels["app"] != "limited" {
			continue
		}
		pods[e.Pod.UID] = true
		if e.Pod.Labels[apps.LabelLifecycleState] == apps.LifecycleNormal && len(e.Pod.Status.ContainerStatuses) > 0 && e.Pod.Status.ContainerStatuses[0].Ready {
			ready[e.Pod.UID] = true
		}
		if len(pods)-len(ready) > 2 {
			c.t.Errorf("%d Pods had been created when %d were ready", len(pods), len(ready))
		}
	}
}

func scaleLimitZero(c *cluster) {
	c.create(c.cloneSet("nogrow", 2))
	c.change("nogrow", both(setReplicas(3), setImage(0, "example.test/app:v2"), func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromInt32(0))
	}))
	// With two of three Pods, one Pod is already missing, and 20 % of 3 rounds to 1. So a Pod can be updated only after
	// the limit for updates was raised.
	c.change("nogrow", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromInt32(2)) }))
	c.until("nogrow", func(cs *v1beta1.CloneSet) error {
		if cs.Status.UpdatedAvailableReplicas != 2 || cs.Status.Replicas != 2 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return observed(cs)
	})
	c.untilEvent("nogrow", apps.EventScaleUpLimited, "0 of 1")
}

func deleteByLabel(c *cluster) {
	c.create(c.cloneSet("bylabel", 5, templateAnnotation(controlplane.StartDelay, "500ms"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromInt32(1))
	})))
	c.watch("bylabel", limits{minReady: 4, maxPods: 5})
	pods := c.pods("bylabel")
	for _, pod := range pods[:2] {
		c.label(pod.Name, apps.LabelSpecifiedDelete, "true")
	}
	c.untilGone(pods[0].Name)
	c.untilGone(pods[1].Name)
	c.until("bylabel", settled)
	kept := identities(c.pods("bylabel"))
	for _, pod := range pods[2:] {
		if _, ok := kept[pod.UID]; !ok {
			c.t.Errorf("Pod %s was deleted as well", pod.Name)
		}
	}
	c.untilEvent("bylabel", apps.EventSuccessfulDelete, pods[0].Name)
}

func deleteByName(c *cluster) {
	c.create(c.cloneSet("byname", 3, templateAnnotation(controlplane.StartDelay, "500ms"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromInt32(1))
	})))
	c.watch("byname", limits{minReady: 2, maxPods: 3})
	pods := c.pods("byname")
	c.change("byname", func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.PodsToDelete = []string{pods[0].Name, "byname-never", pods[1].Name}
	})
	c.until("byname", func(cs *v1beta1.CloneSet) error {
		if names := cs.Spec.ScaleStrategy.PodsToDelete; len(names) > 0 {
			return fmt.Errorf("podsToDelete still names %v", names)
		}
		return settled(cs)
	})
	c.untilGone(pods[0].Name)
	c.untilGone(pods[1].Name)
	if pod := c.pod(pods[2].Name); pod.DeletionTimestamp != nil {
		c.t.Errorf("Pod %s was deleted as well", pod.Name)
	}
}

func deleteUnready(c *cluster) {
	c.create(c.cloneSet("sick", 3, rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromInt32(0)) })))
	pods := c.pods("sick")
	c.label(pods[0].Name, apps.LabelSpecifiedDelete, "") // the label counts with any value
	c.annotate(pods[1].Name, controlplane.Unready, "*")
	c.until("sick", func(cs *v1beta1.CloneSet) error {
		if cs.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	c.label(pods[1].Name, apps.LabelSpecifiedDelete, "true")
	c.untilGone(pods[1].Name)
	c.until("sick", settled)
	if pod := c.pod(pods[0].Name); pod.DeletionTimestamp != nil {
		c.t.Error("a ready Pod was deleted without a budget")
	}
}

func deletionCost(c *cluster) {
	c.create(c.cloneSet("cost", 4))
	pods := c.pods("cost")
	c.annotate(pods[0].Name, apps.AnnotationPodDeletionCost, "10")
	c.annotate(pods[1].Name, apps.AnnotationPodDeletionCost, "-5")
	c.annotate(pods[2].Name, apps.AnnotationPodDeletionCost, "1")
	// The API server refuses values of the annotation that are not numbers. A Pod without the annotation has a
	// deletion cost of 0.
	c.change("cost", setReplicas(2))
	c.until("cost", settled)
	got := identities(c.untilPods("cost", count(2)))
	for _, pod := range []corev1.Pod{pods[0], pods[2]} {
		if _, ok := got[pod.UID]; !ok {
			c.t.Errorf("Pod %s with cost %s was deleted", pod.Name, c.pod(pod.Name).Annotations[apps.AnnotationPodDeletionCost])
		}
	}
}

func unreadyFirst(c *cluster) {
	c.create(c.cloneSet("weakest", 3))
	pods := c.pods("weakest")
	c.annotate(pods[1].Name, apps.AnnotationPodDeletionCost, "1000")
	c.annotate(pods[1].Name, controlplane.Unready, "*")
	c.until("weakest", func(cs *v1beta1.CloneSet) error {
		if cs.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	c.change("weakest", setReplicas(2))
	c.untilGone(pods[1].Name)
	c.until("weakest", settled)
}

func preparingDelete(c *cluster, name string, exclude bool) {
	hold := map[string]string{"example.test/hold": "yes"}
	c.create(c.cloneSet(name, 3, func(cs *v1beta1.CloneSet) {
		templateLabel("example.test/hold", "yes")(cs)
		cs.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: hold}}
		cs.Spec.ScaleStrategy.ExcludePreparingDelete = exclude
	}))
	held := c.pods(name)[0]
	c.label(held.Name, apps.LabelSpecifiedDelete, "true")
	c.untilPod(held.Name, state(apps.LifecyclePreparingDelete))
	want := 3
	if exclude {
		want = 4
	}
	c.until(name, func(cs *v1beta1.CloneSet) error {
		if int(cs.Status.AvailableReplicas) != want-1 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	c.witness(name)
	c.untilPods(name, count(want))
	c.unlabel(held.Name, "example.test/hold")
	c.untilGone(held.Name)
	c.until(name, settled)
	c.untilPods(name, count(3))
}

func failedPod(c *cluster) {
	c.create(c.cloneSet("failed", 2))
	ended := c.pods("failed")[0]
	since := c.mark()
	c.annotate(ended.Name, controlplane.Fail, "Evicted")
	c.untilPods("failed", count(3))
	c.until("failed", settled)
	pod := c.pod(ended.Name)
	if pod.UID != ended.UID || pod.Status.Phase != corev1.PodFailed || pod.DeletionTimestamp != nil {
		c.t.Errorf("the failed Pod: phase %s, deleted %v", pod.Status.Phase, pod.DeletionTimestamp)
	}
	c.wantWrites("writes", "failed", since, map[string]int{"create pods": 1, "patch pods/status": 1})
}
