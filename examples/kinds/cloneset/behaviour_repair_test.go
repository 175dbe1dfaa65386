package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestRepair: the usual repairs by users work, and lose no data.
func TestRepair(t *testing.T) {
	behave(t, "InPlaceWorkloadVerticalScaling=true,RecreatePodWhenChangeVCTInCloneSetGate=true", nil, []behaviour{
		{"C-63 a first image that never comes up, under a scale limit", repairFirstImage},
		{"L-7 a preNormal hook taken out of the spec lets its Pods go", removedPreNormal},
		{"L-4 an inPlaceUpdate hook taken out of the spec lets its Pods go", removedUpdateHook},
		{"C-4 a released Pod keeps its claim", func(c *cluster) { releasedClaim(c, "relclaim", false) }},
		{"C-4 C-36 a released Pod keeps its claim and id, with reuse", func(c *cluster) { releasedClaim(c, "relreuse", true) }},
		{"C-31 a claim that somebody else's Pod uses stays", sharedClaim},
		{"U-27 one Pod that cannot be updated does not hold up the others", oneUnreadable},
		{"C-4 another's Pod of the right name gets no claim of others", namesake},
		{"C-36 Pods deleted by hand come back to their claims", reusedClaims},
		{"U-5 limits alone, in place only", func(c *cluster) { limitsOnly(c, "limonly", v1beta1.InPlaceOnly) }},
		{"U-5 limits alone, in place if possible", func(c *cluster) { limitsOnly(c, "limposs", v1beta1.InPlaceIfPossible) }},
		{"C-22 OnDelete makes no surge Pods", onDeleteSurge},
		{"C-64 U-6 back to an old template with other claim templates", claimTemplatesAndRollback},
	})
}

func repairFirstImage(c *cluster) {
	const name = "badfirst"
	cs := c.cloneSet(name, 5, templateAnnotation(controlplane.Unready, "app"), func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromInt32(1))
	})
	if err := c.Create(c.t.Context(), cs); err != nil {
		c.t.Fatal(err)
	}
	c.untilPods(name, count(1))
	c.untilEvent(name, apps.EventScaleUpLimited, "0 of 4")
	c.change(name, both(setImage(0, "example.test/app:v2"), templateAnnotation(controlplane.Unready, "")))
	c.until(name, settled)
	c.untilPods(name, images(map[string]int{"v2": 5}))
}

// oneUnreadable checks that Pods that cannot be updated do not use up maxUnavailable, even if these Pods are first in
// the update order.
func oneUnreadable(c *cluster) {
	const name = "onebad"
	c.create(c.cloneSet(name, 4, rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromInt32(1)) })))
	pods := c.pods(name)
	first := slices.MinFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	last := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range []string{first.Name, last.Name} {
		c.annotate(pod, apps.AnnotationInPlaceUpdateState, "{bad")
	}
	c.change(name, setImage(0, "example.test/app:v2"))
	c.untilPods(name, images(map[string]int{"v1": 2, "v2": 2}))
}

// namesake checks a Pod of another owner with the name of a missing Pod. The controller does not let this Pod take
// over a claim that is in use.
func namesake(c *cluster) {
	c.moveOut()
	const name = "namesake"
	c.create(c.cloneSet(name, 2, c.withClaims(9), func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.EnablePVCReuse = true }))
	pods, claims := c.pods(name), c.claims(name)
	stop := c.deny("create", admissionv1.Create, "has(object.metadata.labels) && 'foreign' in object.metadata.labels")
	c.untilDenied(func(ctx context.Context) error {
		return c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "probe"}, Spec: plainPod()}, client.DryRunAll)
	})
	if err := c.Delete(c.t.Context(), &pods[0], client.GracePeriodSeconds(0)); err != nil {
		c.t.Fatal(err)
	}
	c.untilPods(name, count(1))
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: pods[0].Name, Labels: map[string]string{"foreign": "yes"}}, Spec: plainPod()}
	for i := range claims {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claims[i].Name}}
		foreign.Spec.Volumes = append(foreign.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: source})
	}
	if err := c.Create(c.t.Context(), foreign); err != nil {
		c.t.Fatal(err)
	}
	stop()
	c.change(name, func(cs *v1beta1.CloneSet) { cs.Spec.MinReadySeconds = 1 })
	c.until(name, settled)
	for _, claim := range c.claims(name) {
		if strings.HasSuffix(claim.Name, pods[1].Name) && !ownedByCloneSet(&claim) {
			c.t.Errorf("claim %s of a live Pod belongs to %+v", claim.Name, claim.OwnerReferences)
		}
	}
}

func plainPod() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}}
}

func ownedByCloneSet(claim *corev1.PersistentVolumeClaim) bool {
	ref := metav1.GetControllerOf(claim)
	return ref != nil && ref.Kind == "CloneSet"
}

func removedPreNormal(c *cluster) {
	cs := c.cloneSet("pnr", 1, func(cs *v1beta1.CloneSet) {
		cs.Spec.Lifecycle = &pub.Lifecycle{PreNormal: &pub.LifecycleHook{LabelsHandler: map[string]string{"warm": "yes"}}}
	})
	if err := c.Create(c.t.Context(), cs); err != nil {
		c.t.Fatal(err)
	}
	c.until("pnr", func(cs *v1beta1.CloneSet) error {
		if cs.Status.ReadyReplicas != 1 || cs.Status.AvailableReplicas != 0 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	c.witness("pnr")
	c.change("pnr", func(cs *v1beta1.CloneSet) { cs.Spec.Lifecycle = nil })
	c.until("pnr", settled)
}

func removedUpdateHook(c *cluster) {
	c.create(c.cloneSet("uhr", 1, hooked(onUpdate, false)))
	pod := c.pods("uhr")[0].Name
	c.change("uhr", setImage(0, "example.test/app:v2"))
	c.untilPod(pod, state(apps.LifecyclePreparingUpdate))
	c.unlabel(pod, hold)
	c.untilPod(pod, state(apps.LifecycleUpdated))
	c.witness("uhr")
	c.change("uhr", func(cs *v1beta1.CloneSet) { cs.Spec.Lifecycle = nil })
	c.untilPod(pod, state(apps.LifecycleNormal))
	c.until("uhr", settled)
}

func releasedClaim(c *cluster, name string, reuse bool) {
	c.create(c.cloneSet(name, 2, c.withClaims(6), func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.EnablePVCReuse = reuse }))
	gone := c.pods(name)[0]
	claim := c.claims(name)[gone.Labels[apps.LabelInstanceID]]
	c.label(gone.Name, "app", "debug")
	c.untilPod(gone.Name, func(pod *corev1.Pod) error {
		if ref := metav1.GetControllerOf(pod); ref != nil {
			return fmt.Errorf("still owned by %s", ref.Name)
		}
		return nil
	})
	c.untilPods(name, count(2))
	c.until(name, settled)
	c.witness(name)
	fresh := &corev1.PersistentVolumeClaim{}
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(&claim), fresh); err != nil {
		c.t.Fatal(err)
	}
	if fresh.DeletionTimestamp != nil || len(fresh.OwnerReferences) != 1 || fresh.OwnerReferences[0].UID != gone.UID {
		c.t.Errorf("the claim of the released Pod %s is terminating (%v) or not the Pod's: %+v", gone.Name, fresh.DeletionTimestamp, fresh.OwnerReferences)
	}
	if p := c.pod(gone.Name); p.DeletionTimestamp != nil {
		c.t.Error("the released Pod is terminating")
	}
}

func sharedClaim(c *cluster) {
	c.create(c.cloneSet("shared", 2, c.withClaims(4)))
	gone := c.pods("shared")[0]
	claim := c.claims("shared")[gone.Labels[apps.LabelInstanceID]]
	debug := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "debug-shared"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "shell", Image: "example.test/shell:v1"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}}},
		},
	}
	if err := c.Create(c.t.Context(), debug); err != nil {
		c.t.Fatal(err)
	}
	c.witness("shared")
	c.label(gone.Name, apps.LabelSpecifiedDelete, "true")
	c.untilGone(gone.Name)
	c.until("shared", settled)
	fresh := &corev1.PersistentVolumeClaim{}
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(&claim), fresh); err != nil || fresh.DeletionTimestamp != nil {
		c.t.Errorf("a claim that Pod %s uses is terminating: %v", debug.Name, err)
	}
}

func reusedClaims(c *cluster) {
	second := func(cs *v1beta1.CloneSet) {
		other := cs.Spec.VolumeClaimTemplates[0].DeepCopy()
		other.Name = "tmp"
		cs.Spec.VolumeClaimTemplates = append(cs.Spec.VolumeClaimTemplates, *other)
		cs.Spec.ScaleStrategy.EnablePVCReuse = true
		cs.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(3)) // Pods of the template end slowly
	}
	c.create(c.cloneSet("reuse", 4, c.withClaims(16), second))
	names := map[string]bool{}
	for _, pod := range c.pods("reuse") {
		names[pod.Name] = true
		if err := c.Delete(c.t.Context(), &pod); err != nil {
			c.t.Fatal(err)
		}
	}
	c.untilPods("reuse", func(pods []corev1.Pod) error {
		if err := count(4)(pods); err != nil {
			return err
		}
		for i := range pods {
			if !names[pods[i].Name] {
				return fmt.Errorf("Pod %s is none of %v", pods[i].Name, names)
			}
		}
		return nil
	})
	c.until("reuse", settled)
	var claims corev1.PersistentVolumeClaimList
	if err := c.List(c.t.Context(), &claims, client.InNamespace(c.namespace), client.MatchingLabels{"app": "reuse"}); err != nil {
		c.t.Fatal(err)
	}
	if n := len(claims.Items); n != 8 {
		c.t.Errorf("%d claims, want 8", n)
	}
}

func setLimits(cpu, memory string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		for i := range cs.Spec.Template.Spec.Containers {
			cs.Spec.Template.Spec.Containers[i].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}}
		}
	}
}

func limitsOnly(c *cluster, name string, p v1beta1.CloneSetPodUpdatePolicy) {
	c.create(c.cloneSet(name, 1, policy(p), setLimits("100m", "64Mi")))
	before := c.pods(name)[0]
	c.change(name, setLimits("200m", "64Mi"))
	c.until(name, settled)
	after := c.pods(name)[0]
	request := after.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
	if after.UID != before.UID || after.Status.QOSClass != before.Status.QOSClass || request.Cmp(resource.MustParse("200m")) != 0 {
		c.t.Errorf("same Pod %v, QoS class %s, request %s", after.UID == before.UID, after.Status.QOSClass, request.String())
	}
}

func onDeleteSurge(c *cluster) {
	const name = "odsurge"
	c.create(c.cloneSet(name, 2, func(cs *v1beta1.CloneSet) {
		cs.Spec.UpdateStrategy.Type = v1beta1.OnDelete
		cs.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.ReCreate
		cs.Spec.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(1))
	}))
	c.watch(name, limits{minReady: 2, maxPods: 2})
	c.change(name, setImage(0, "example.test/app:v2"))
	c.until(name, observed)
	c.witness(name)
}

func claimTemplatesAndRollback(c *cluster) {
	const name = "vctback"
	c.create(c.cloneSet(name, 1, c.withClaims(4)))
	c.change(name, setImage(0, "example.test/app:v2"))
	c.until(name, settled)
	before := c.pods(name)[0]
	// The next change sets the old template again, with new claim templates.
	c.change(name, both(setImage(0, "example.test/app:v1"), func(cs *v1beta1.CloneSet) {
		cs.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("512Mi")
	}))
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if pods := c.pods(name); len(pods) != 1 || pods[0].UID == before.UID {
			return errors.New("the Pod was not recreated although its claim templates have changed")
		}
		return nil
	})
	c.until(name, settled)
	if revisions := c.revisions(c.get(c.t.Context(), name)); len(revisions) != 2 {
		c.t.Errorf("%d revisions, want 2", len(revisions))
	}
}
