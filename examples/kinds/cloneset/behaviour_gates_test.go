package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

func TestGates(t *testing.T) {
	behave(t, "CloneSetPartitionRollback=true,InPlaceWorkloadVerticalScaling=true,InPlaceUpdateEnvFromMetadata=false,"+
		"RecreatePodWhenChangeVCTInCloneSetGate=true", nil, []behaviour{
		{"C-48 a larger partition takes Pods back in place", partitionRollback},
		{"C-48 L-3 a hook holds the way back as well", partitionRollbackHook},
		{"U-12 U-10 a resize keeps the Pod in service", resizeOnly},
		{"U-10 a resize that restarts takes the Pod out of service", resizeRestarts},
		{"U-12 image and resources together", resizeAndImage},
		{"U-5 another QoS class is recreated, and says so", resizeQOS},
		{"U-5 a new limit is recreated, and says so", resizeAdds},
		{"U-7 without the gate a label changes and nothing restarts", envGateOff},
		{"U-6 new claim templates recreate a Pod with the next change", claimTemplateGate},
		{"U-6 with InPlaceOnly they do not", claimTemplateGateInPlaceOnly},
	})
}

func partitionRollback(c *cluster) {
	partition := func(n int32) func(*v1beta1.CloneSet) {
		return rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.Partition, ru.MaxUnavailable = new(intstr.FromInt32(n)), new(intstr.FromInt32(2))
		})
	}
	c.create(c.cloneSet("back", 5, partition(1)))
	before := identities(c.pods("back"))
	c.change("back", setImage(0, "example.test/app:v2"))
	c.until("back", settled)
	c.untilPods("back", images(map[string]int{"v1": 1, "v2": 4}))
	c.watch("back", limits{minReady: 3, maxPods: 5})
	c.change("back", partition(4))
	c.untilPods("back", images(map[string]int{"v1": 4, "v2": 1}))
	c.until("back", settled)
	c.change("back", partition(0))
	c.until("back", settled)
	if diff := cmp.Diff(before, identities(c.untilPods("back", images(map[string]int{"v2": 5})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

func partitionRollbackHook(c *cluster) {
	c.create(c.cloneSet("backhook", 1, hooked(onUpdate, false)))
	// A second Pod that must be updated keeps the rollout from ending. After the end of the rollout, the new revision
	// would be the current revision.
	c.change("backhook", both(setReplicas(2), setImage(0, "example.test/app:v2"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.Partition, ru.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt32(1))
	})))
	c.untilPods("backhook", images(map[string]int{"v1": 1, "v2": 1}))
	c.until("backhook", settled)
	pods := c.pods("backhook")
	pod := pods[slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.Containers[0].Image == "example.test/app:v2" })].Name
	since := c.mark()
	c.change("backhook", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = new(intstr.FromInt32(2)) }))
	c.untilPod(pod, state(apps.LifecyclePreparingUpdate))
	c.witness("backhook")
	want := map[string]int{"patch pods": 1, "create pods": 1, "patch pods/status": 1}
	c.wantWrites("writes, those for the witness included", "backhook", since, want)
	c.unlabel(pod, hold)
	c.untilPod(pod, state(apps.LifecycleUpdated))
	c.label(pod, hold, "yes")
	c.until("backhook", settled)
	c.untilPods("backhook", images(map[string]int{"v1": 2}))
}

func resources(cpu, memory string, limits bool) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	r := corev1.ResourceRequirements{Requests: list}
	if limits {
		r.Limits = list.DeepCopy()
	}
	return r
}

func setResources(r corev1.ResourceRequirements) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Resources = r }
}

// untilResized waits until the CloneSet has settled and the first container runs with the resources.
func (c *cluster) untilResized(name string, want corev1.ResourceRequirements) []corev1.Pod {
	c.t.Helper()
	c.until(name, settled)
	return c.untilPods(name, func(pods []corev1.Pod) error {
		for i := range pods {
			have := podstate.ContainerStatus(&pods[i], "app").Resources
			if diff := cmp.Diff(&want, have); diff != "" {
				return fmt.Errorf("Pod %s runs with other resources (-want +got):\n%s", pods[i].Name, diff)
			}
		}
		return nil
	})
}

func resizeOnly(c *cluster) {
	c.create(c.cloneSet("resize", 2, setResources(resources("100m", "64Mi", false))))
	before := identities(c.pods("resize"))
	w := c.watch("resize", limits{minReady: 2, maxPods: 2})
	since := c.mark()
	c.change("resize", setResources(resources("200m", "64Mi", false)))
	pods := c.untilResized("resize", resources("200m", "64Mi", false))
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
	for i := range pods {
		if n := pods[i].Status.ContainerStatuses[0].RestartCount; n != 0 {
			c.t.Errorf("Pod %s restarted %d times", pods[i].Name, n)
		}
		for _, seen := range w.of(pods[i].UID) {
			if !gate(seen, corev1.ConditionTrue) {
				c.t.Errorf("the gate of Pod %s was closed for a resize", pods[i].Name)
				break
			}
		}
	}
	tally := c.writes("resize", since)
	if tally["patch pods/resize"] != 2 || tally["delete pods"]+tally["create pods"] != 0 {
		c.t.Errorf("writes %v", tally)
	}
}

func resizeRestarts(c *cluster) {
	c.create(c.cloneSet("regrow", 1, setResources(resources("100m", "64Mi", false)), func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
		}
	}))
	pod := c.pods("regrow")[0]
	closed := func(w *watched) bool {
		for _, seen := range w.of(pod.UID) {
			if gate(seen, corev1.ConditionFalse) {
				return true
			}
		}
		return false
	}
	w := c.watch("regrow", limits{minReady: 0, maxPods: 1})
	c.change("regrow", setResources(resources("150m", "64Mi", false)))
	c.untilResized("regrow", resources("150m", "64Mi", false))
	if closed(w) {
		c.t.Error("the gate was closed though only cpu changed")
	}
	w = c.watch("regrow", limits{minReady: 0, maxPods: 1})
	c.change("regrow", setResources(resources("150m", "128Mi", false)))
	after := c.untilResized("regrow", resources("150m", "128Mi", false))[0]
	if !closed(w) || after.UID != pod.UID || after.Status.ContainerStatuses[0].RestartCount != 1 {
		c.t.Errorf("gate closed: %v, Pod %s, %d restarts", closed(w), after.Name, after.Status.ContainerStatuses[0].RestartCount)
	}
}

func resizeAndImage(c *cluster) {
	c.create(c.cloneSet("resimage", 2, setResources(resources("100m", "64Mi", true))))
	before := identities(c.pods("resimage"))
	c.change("resimage", both(setImage(0, "example.test/app:v2"), setResources(resources("200m", "128Mi", true))))
	pods := c.untilResized("resimage", resources("200m", "128Mi", true))
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
	for i := range pods {
		if app := pods[i].Status.ContainerStatuses[0]; app.Image != "example.test/app:v2" || app.RestartCount != 1 || !gate(&pods[i], corev1.ConditionTrue) {
			c.t.Errorf("app runs %s after %d restarts", app.Image, app.RestartCount)
		}
	}
}

func resizeQOS(c *cluster) {
	both := func(r corev1.ResourceRequirements) func(*v1beta1.CloneSet) {
		return func(cs *v1beta1.CloneSet) {
			for i := range cs.Spec.Template.Spec.Containers {
				cs.Spec.Template.Spec.Containers[i].Resources = r
			}
		}
	}
	c.create(c.cloneSet("qos", 1, both(resources("100m", "64Mi", true))))
	pod := c.pods("qos")[0]
	burstable := resources("100m", "64Mi", true)
	burstable.Requests = resources("50m", "64Mi", false).Requests
	c.change("qos", both(burstable))
	c.untilGone(pod.Name)
	c.untilResized("qos", burstable)
	c.untilEvent("qos", apps.EventSuccessfulUpdatePodReCreate, pod.Name, string(inplaceupdate.QOSClassWouldChange))
}

func resizeAdds(c *cluster) {
	c.create(c.cloneSet("adds", 1, setResources(resources("100m", "64Mi", false))))
	pod := c.pods("adds")[0]
	c.change("adds", setResources(resources("100m", "64Mi", true)))
	c.untilGone(pod.Name)
	c.until("adds", settled)
	c.untilEvent("adds", apps.EventSuccessfulUpdatePodReCreate, pod.Name, "spec.containers[app].resources.limits")
}

func envGateOff(c *cluster) {
	c.create(c.cloneSet("envoff", 1, templateLabel("zone", "a"), func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ZONE", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['zone']"},
		}}}
	}))
	c.watch("envoff", limits{minReady: 1, maxPods: 1})
	c.change("envoff", templateLabel("zone", "b"))
	c.until("envoff", settled)
	if pod := c.pods("envoff")[0]; pod.Labels["zone"] != "b" || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		c.t.Errorf("labels %v, %d restarts", pod.Labels, pod.Status.ContainerStatuses[0].RestartCount)
	}
}

func claimTemplateGate(c *cluster) {
	c.create(c.cloneSet("vctgate", 1, c.withClaims(2)))
	pod := c.pods("vctgate")[0]
	c.change("vctgate", func(cs *v1beta1.CloneSet) {
		cs.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("512Mi")
	})
	c.until("vctgate", settled)
	c.witness("vctgate")
	if live := c.pod(pod.Name); live.UID != pod.UID || live.DeletionTimestamp != nil {
		c.t.Error("claim templates alone replaced a Pod")
	}
	c.change("vctgate", setImage(0, "example.test/app:v2"))
	c.untilGone(pod.Name)
	c.until("vctgate", settled)
	c.untilEvent("vctgate", apps.EventSuccessfulUpdatePodReCreate, pod.Name, "spec.volumeClaimTemplates")
}

// claimTemplateGateInPlaceOnly checks that no Pod is recreated with InPlaceOnly, even if the Pod lacks a claim. When
// the policy changes to InPlaceIfPossible, a condition names the missing claim, and the next update recreates the
// Pod.
func claimTemplateGateInPlaceOnly(c *cluster) {
	c.create(c.cloneSet("vctonly", 1, c.withClaims(4), policy(v1beta1.InPlaceOnly)))
	before := identities(c.pods("vctonly"))
	c.change("vctonly", func(cs *v1beta1.CloneSet) {
		more := cs.Spec.VolumeClaimTemplates[0].DeepCopy()
		more.Name = "more"
		cs.Spec.VolumeClaimTemplates = append(cs.Spec.VolumeClaimTemplates, *more)
		setImage(0, "example.test/app:v2")(cs)
	})
	c.until("vctonly", settled)
	if diff := cmp.Diff(before, identities(c.untilPods("vctonly", images(map[string]int{"v2": 1})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
	c.until("vctonly", withoutCondition(apps.ConditionWaiting))
	c.change("vctonly", policy(v1beta1.InPlaceIfPossible))
	c.until("vctonly", hasCondition(apps.ConditionWaiting, corev1.ConditionTrue, string(podcontrol.ClaimsLacking), "[more]"))
	c.change("vctonly", setImage(0, "example.test/app:v3"))
	c.until("vctonly", settled)
	c.until("vctonly", withoutCondition(apps.ConditionWaiting))
	c.claimed("vctonly", 1, "data", "more")
}

// TestShortHash turns on and off the feature gate CloneSetShortHash, which changes only the spelling of a Pod's
// revision label.
func TestShortHash(t *testing.T) {
	t.Parallel()
	c := idle(t)
	stop := c.manage("")
	cs := c.create(c.cloneSet("spelling", 2, rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = new(intstr.FromInt32(1)) })))
	before := identities(c.pods("spelling"))
	long := cs.Status.UpdateRevision
	short := revision.ShortName(long)
	stop()

	since := c.mark()
	stop = c.manage("CloneSetShortHash=true")
	c.witness("spelling")
	c.wantWrites("writes besides the witness", "spelling", since, map[string]int{"create pods": 1, "patch pods/status": 1})
	for _, pod := range c.pods("spelling-witness") {
		if pod.Labels[apps.LabelRevision] != pod.Labels[apps.LabelPodTemplateHash] {
			t.Errorf("labels of a new Pod: %v", pod.Labels)
		}
	}
	// Of two Pods, one is updated, so the labels of the Pods now have different spellings.
	c.change("spelling", setImage(0, "example.test/app:v2"))
	cs = c.until("spelling", settled)
	got := map[string]int{}
	for _, pod := range c.pods("spelling") {
		got[pod.Labels[apps.LabelRevision]]++
	}
	if diff := cmp.Diff(map[string]int{long: 1, revision.ShortName(cs.Status.UpdateRevision): 1}, got); diff != "" || short == long {
		t.Errorf("revision labels (-want +got):\n%s", diff)
	}
	stop()

	since = c.mark()
	c.manage("")
	c.witness("spelling-again")
	c.wantWrites("writes besides the witness", "spelling", since, map[string]int{"create pods": 1, "patch pods/status": 1})
	c.change("spelling", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = nil }))
	c.until("spelling", settled)
	if diff := cmp.Diff(before, identities(c.untilPods("spelling", images(map[string]int{"v2": 2})))); diff != "" {
		t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

// TestStartBesideWriters: the controller acts at once even if other clients write objects while the controller
// starts. The risk is a long wait: the watch of a resource without writes learns the API server's newest
// resourceVersion only with a bookmark, a minute later.
func TestStartBesideWriters(t *testing.T) {
	c := idle(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			_ = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: fmt.Sprint("noise-", i)}})
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	c.manage("")
	if err := c.Create(t.Context(), c.cloneSet("prompt", 1)); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, 15*time.Second, func(ctx context.Context) error {
		cs := c.get(ctx, "prompt")
		if err := ctx.Err(); err != nil {
			return err // and cs is empty
		}
		return settled(cs)
	})
}

// TestRestart stops the controller in the middle of rollouts and starts a new controller.
func TestRestart(t *testing.T) {
	t.Parallel()
	const replicas = 12
	c := idle(t)
	stop := c.manage("")
	slow := templateAnnotation(controlplane.StartDelay, "300ms")
	budget := rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromInt32(3)) })
	names := []string{"inplace", "recreate", "grow"}
	for _, cs := range []*v1beta1.CloneSet{
		c.cloneSet("inplace", replicas, slow, budget),
		c.cloneSet("recreate", replicas, slow, budget, policy(v1beta1.ReCreate)),
		c.cloneSet("grow", 2, slow),
	} {
		if err := c.Create(t.Context(), cs); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		c.until(name, settled)
	}
	before := identities(c.pods("inplace"))
	c.watch("inplace", limits{minReady: replicas - 3, maxPods: replicas})
	c.watch("recreate", limits{minReady: replicas - 3, maxPods: replicas})
	c.watch("grow", limits{minReady: 2, maxPods: replicas})
	c.noTwins("recreate")
	c.change("inplace", setImage(0, "example.test/app:v2"))
	c.change("recreate", setImage(0, "example.test/app:v2"))
	c.change("grow", setReplicas(replicas))
	for i := range 3 {
		// The controller is stopped as soon as progress is visible, in the middle of the next step.
		c.untilPods("recreate", func(pods []corev1.Pod) error {
			if done := byImage(pods)["v2"]; done <= 3*i {
				return fmt.Errorf("%d Pods are new", done)
			}
			return nil
		})
		stop()
		stop = c.manage("")
	}
	for _, name := range names {
		c.until(name, func(cs *v1beta1.CloneSet) error { return errors.Join(settled(cs), observed(cs)) })
		c.untilPods(name, count(replicas))
	}
	c.untilPods("recreate", images(map[string]int{"v2": replicas}))
	if diff := cmp.Diff(before, identities(c.untilPods("inplace", images(map[string]int{"v2": replicas})))); diff != "" {
		t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

// noTwins fails the test if two Pods ever have the same instance id.
func (c *cluster) noTwins(name string) {
	c.t.Helper()
	seen := map[string]types.UID{}
	controllertest.Watch(c.t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
		for uid, pod := range pods {
			id := pod.Labels[apps.LabelInstanceID]
			if pod.Labels["app"] != name || metav1.GetControllerOf(pod) == nil {
				continue
			}
			if other, ok := seen[id]; ok && other != uid {
				c.t.Errorf("two Pods had the instance id %s", id)
			}
			seen[id] = uid
		}
	})
}
