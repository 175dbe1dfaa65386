package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

func TestUpdate(t *testing.T) {
	behave(t, "", nil, []behaviour{
		{"P-2 a partition of 80 % of 10 updates 2", partitionPercent},
		{"C-48 growing the partition takes nothing back, shrinking it goes on", partitionGrows},
		{"C-13 P-4 recreating with surge never loses a Pod", surgeRecreate},
		{"C-13 updating in place uses no surge", surgeUnusedInPlace},
		{"C-20 paused: no updates, but scaling and specified delete", pausedRollout},
		{"C-22 OnDelete updates nothing and prefers old Pods on scale-in", onDelete},
		{"C-21 OnDelete has a budget of at least one", onDeleteBudget},
		{"C-45 C-46 InPlaceOnly: an impossible change touches no Pod", inPlaceOnly},
		{"C-46 InPlaceIfPossible names the field it recreates Pods for", inPlaceFallback},
		{"C-41 InPlaceIfPossible recreates a Pod whose revision is unknown", revisionUnknown},
		{"C-43 Pods that are unavailable already are updated without budget", unavailableFirst},
		{"U-3 U-10 labels and annotations alone: one write and no restart", metadataOnly},
		{"U-7 an env that reads a label waits for the node agent", envFromLabel},
		{"U-2 the image of a native sidecar", nativeSidecar},
		{"U-14 grace period, with the value it began with", gracePeriod},
		{"U-18 U-20 batches by launch priority", priorityBatches},
		{"U-18 a first batch that stays unready holds the second for ever", priorityBatchBroken},
		{"U-27 a Pod with an unreadable state is left alone", unreadableState},
		{"the state of an update is removed", lostState},
		{"U-28 an update overtaken by another", overtaken},
		{"U-28 an image update overtaken by a change of labels", overtakenByLabel},
		{"U-28 pending batches overtaken by another image", func(c *cluster) {
			overtakenBatches(c, "newimage", both(setImage(0, "example.test/app:v3"), unsteer(controlplane.Unready)), "v3")
		}},
		{"U-28 pending batches overtaken by a change of labels", func(c *cluster) {
			overtakenBatches(c, "newlabel", both(templateLabel("tier", "web"), unsteer(controlplane.Unready)), "v2")
		}},
		{"R-1 rollback keeps the revision's name and raises its number", rollbackRevision},
		{"R-3 a revision name that is taken", hashCollision},
		{"R-8 history limit", historyLimit},
		{"C-37 claim templates alone change no Pod", claimTemplatesOnly},
		{"O-1 weights choose who is updated first", weightPriority},
	})
}

func partitionPercent(c *cluster) {
	c.create(c.cloneSet("percent", 10, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.Partition, ru.MaxUnavailable = new(intstr.FromString("80%")), new(intstr.FromString("100%"))
	})))
	c.change("percent", setImage(0, "example.test/app:v2"))
	cs := c.until("percent", settled)
	if cs.Status.ExpectedUpdatedReplicas != 2 || cs.Status.UpdatedReplicas != 2 {
		c.t.Errorf("status %+v", cs.Status)
	}
	c.witness("percent")
	c.untilPods("percent", images(map[string]int{"v1": 8, "v2": 2}))
}

func partitionGrows(c *cluster) {
	c.create(c.cloneSet("grows", 4, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.Partition, ru.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt32(2))
	})))
	partition := func(n int32) {
		c.change("grows", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = new(intstr.FromInt32(n)) }))
		c.until("grows", settled)
	}
	c.change("grows", setImage(0, "example.test/app:v2"))
	c.until("grows", settled)
	before := identities(c.untilPods("grows", images(map[string]int{"v1": 1, "v2": 3})))
	since := c.mark()
	partition(3)
	c.witness("grows")
	c.untilPods("grows", images(map[string]int{"v1": 1, "v2": 3}))
	c.wantWrites("writes besides the witness", "grows", since, map[string]int{"create pods": 1, "patch pods/status": 1})
	partition(0)
	if diff := cmp.Diff(before, identities(c.untilPods("grows", images(map[string]int{"v2": 4})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

func surgeRecreate(c *cluster) {
	c.create(c.cloneSet("surge", 3, policy(v1beta1.ReCreate), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxSurge = new(intstr.FromInt32(1)) // 20 % of 3 is rounded down to 0 beside a surge
	})))
	before := identities(c.pods("surge"))
	w := c.watch("surge", limits{minReady: 3, maxPods: 4})
	c.change("surge", setImage(0, "example.test/app:v2"))
	c.until("surge", func(cs *v1beta1.CloneSet) error {
		if cs.Status.UpdatedAvailableReplicas != 3 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return settled(cs)
	})
	for uid := range identities(c.untilPods("surge", images(map[string]int{"v2": 3}))) {
		if _, ok := before[uid]; ok {
			c.t.Error("a Pod survived policy ReCreate")
		}
	}
	if _, most := w.seen(); most != 4 {
		c.t.Errorf("%d Pods at most, want the surge used", most)
	}
	c.untilEvent("surge", apps.EventSuccessfulUpdatePodReCreate, "recreating Pod surge-")
}

func surgeUnusedInPlace(c *cluster) {
	c.create(c.cloneSet("nosurge", 4, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxSurge, ru.MaxUnavailable = new(intstr.FromInt32(2)), new(intstr.FromInt32(1))
	})))
	before := identities(c.pods("nosurge"))
	c.watch("nosurge", limits{minReady: 3, maxPods: 4})
	c.change("nosurge", setImage(0, "example.test/app:v2"))
	c.until("nosurge", settled)
	if diff := cmp.Diff(before, identities(c.untilPods("nosurge", images(map[string]int{"v2": 4})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

func pausedRollout(c *cluster) {
	pause := func(yes bool) func(*v1beta1.CloneSet) {
		return rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Paused = yes })
	}
	c.create(c.cloneSet("paused", 3))
	old := c.pods("paused")
	c.change("paused", both(pause(true), setImage(0, "example.test/app:v2")))
	c.until("paused", func(cs *v1beta1.CloneSet) error {
		if cs.Status.UpdateRevision == cs.Status.CurrentRevision {
			return errors.New("no new revision yet")
		}
		return observed(cs)
	})
	c.witness("paused")
	c.untilPods("paused", images(map[string]int{"v1": 3}))
	c.change("paused", setReplicas(4))
	c.untilPods("paused", images(map[string]int{"v1": 3, "v2": 1}))
	c.label(old[0].Name, apps.LabelSpecifiedDelete, "true")
	c.untilGone(old[0].Name)
	c.untilPods("paused", images(map[string]int{"v1": 2, "v2": 2}))
	c.change("paused", pause(false))
	c.until("paused", settled)
	kept := identities(c.untilPods("paused", images(map[string]int{"v2": 4})))
	for _, pod := range old[1:] {
		if _, ok := kept[pod.UID]; !ok {
			c.t.Errorf("Pod %s was not updated in place after the pause", pod.Name)
		}
	}
}

func asOnDelete(cs *v1beta1.CloneSet) {
	cs.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDelete}
}

func onDelete(c *cluster) {
	c.create(c.cloneSet("ondelete", 5, asOnDelete))
	c.change("ondelete", setImage(0, "example.test/app:v2"))
	c.until("ondelete", observed)
	c.witness("ondelete")
	pods := c.untilPods("ondelete", images(map[string]int{"v1": 5}))
	for i := range pods[:2] {
		if err := c.Delete(c.t.Context(), &pods[i]); err != nil {
			c.t.Fatal(err)
		}
	}
	settledAt := func(want map[string]int) {
		c.untilPods("ondelete", images(want))
		c.until("ondelete", func(cs *v1beta1.CloneSet) error {
			if cs.Status.AvailableReplicas != *cs.Spec.Replicas || int(cs.Status.UpdatedReplicas) != want["v2"] {
				return fmt.Errorf("%+v", cs.Status)
			}
			return observed(cs)
		})
	}
	settledAt(map[string]int{"v1": 3, "v2": 2})
	c.change("ondelete", setReplicas(3))
	settledAt(map[string]int{"v1": 1, "v2": 2})
	c.change("ondelete", setReplicas(5))
	settledAt(map[string]int{"v1": 1, "v2": 4})
}

func onDeleteBudget(c *cluster) {
	c.create(c.cloneSet("odbudget", 2, asOnDelete))
	pod := c.pods("odbudget")[0]
	c.label(pod.Name, apps.LabelSpecifiedDelete, "true")
	c.untilGone(pod.Name)
	c.until("odbudget", settled)
}

func inPlaceOnly(c *cluster) {
	c.create(c.cloneSet("only", 2, policy(v1beta1.InPlaceOnly)))
	before := identities(c.pods("only"))
	since := c.mark()
	c.change("only", both(setEnv("MODE", "fast"), setImage(0, "example.test/app:v2")))
	c.until("only", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, string(inplaceupdate.ImmutableField), "spec.containers[app].env"))
	c.untilEvent("only", apps.EventFailedUpdatePodInPlace, "cannot be updated in place", "spec.containers[app].env")
	c.wantWrites("writes to Pods for a change that is impossible", "only", since, map[string]int{})
	c.change("only", func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Env = nil })
	c.until("only", settled)
	c.until("only", withoutCondition(apps.ConditionFailedUpdate))
	if diff := cmp.Diff(before, identities(c.untilPods("only", images(map[string]int{"v2": 2})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

func inPlaceFallback(c *cluster) {
	c.create(c.cloneSet("fallback", 2, rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromInt32(1)) })))
	before := identities(c.pods("fallback"))
	c.watch("fallback", limits{minReady: 1, maxPods: 2})
	c.change("fallback", both(setEnv("MODE", "fast"), setImage(0, "example.test/app:v2")))
	c.until("fallback", settled)
	for uid := range identities(c.untilPods("fallback", images(map[string]int{"v2": 2}))) {
		if _, ok := before[uid]; ok {
			c.t.Error("a Pod with a new env was not recreated")
		}
	}
	c.untilEvent("fallback", apps.EventSuccessfulUpdatePodReCreate, "not in place", "spec.containers[app].env")
}

// revisionUnknown checks that a Pod is recreated if its revision does not exist, because the Pod's template is then
// unknown.
func revisionUnknown(c *cluster) {
	c.create(c.cloneSet("unknown", 2))
	stranger := c.pods("unknown")[0]
	c.label(stranger.Name, apps.LabelRevision, "unknown-nosuchhash")
	c.untilGone(stranger.Name)
	c.until("unknown", settled)
	c.untilEvent("unknown", apps.EventSuccessfulUpdatePodReCreate, stranger.Name, string(inplaceupdate.RevisionMissing))
}

func unavailableFirst(c *cluster) {
	c.create(c.cloneSet("broken", 4, templateAnnotation(controlplane.Unready, ""), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromInt32(2))
	})))
	pods := c.pods("broken")
	for _, pod := range pods[:2] {
		c.annotate(pod.Name, controlplane.Unready, "app")
	}
	c.until("broken", func(cs *v1beta1.CloneSet) error {
		if cs.Status.AvailableReplicas != 2 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	// The broken Pods stay broken and use up maxUnavailable, so only the broken Pods may be updated.
	c.watch("broken", limits{minReady: 2, maxPods: 4})
	c.change("broken", setImage(0, "example.test/app:v2"))
	c.untilPods("broken", images(map[string]int{"v1": 2, "v2": 2}))
	c.witness("broken")
	for _, pod := range pods[:2] {
		if image := c.pod(pod.Name).Spec.Containers[0].Image; image != "example.test/app:v2" {
			c.t.Errorf("broken Pod %s has image %s", pod.Name, image)
		}
	}
	for _, pod := range pods[:2] {
		c.unannotate(pod.Name, controlplane.Unready)
	}
	c.until("broken", settled)
	c.untilPods("broken", images(map[string]int{"v2": 4}))
}

func metadataOnly(c *cluster) {
	c.create(c.cloneSet("meta", 3, templateAnnotation("example.test/old", "1")))
	w := c.watch("meta", limits{minReady: 3, maxPods: 3})
	since := c.mark()
	c.change("meta", both(templateLabel("tier", "web"), templateAnnotation("example.test/new", "2"), func(cs *v1beta1.CloneSet) {
		delete(cs.Spec.Template.Annotations, "example.test/old")
	}))
	cs := c.until("meta", settled)
	for _, pod := range c.pods("meta") {
		_, old := pod.Annotations["example.test/old"]
		if pod.Labels["tier"] != "web" || pod.Annotations["example.test/new"] != "2" || old || pod.Labels[apps.LabelRevision] != cs.Status.UpdateRevision {
			c.t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
		}
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 || pod.Generation != 1 {
			c.t.Errorf("Pod %s has generation %d after %d restarts", pod.Name, pod.Generation, n)
		}
		for _, seen := range w.of(pod.UID) {
			if !gate(seen, corev1.ConditionTrue) {
				c.t.Errorf("the gate of Pod %s was closed for its metadata", pod.Name)
				break
			}
		}
	}
	c.wantWrites("writes", "meta", since, map[string]int{"patch pods": 3})
}

// envFromLabel checks an update of a label that a container reads into its environment. Only a node agent can restart
// the container. The Pod stays not ready until the agent reports the restart.
func envFromLabel(c *cluster) {
	c.create(c.cloneSet("envref", 1, templateLabel("zone", "a"), func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ZONE", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['zone']"},
		}}}
	}))
	pod := c.pods("envref")[0]
	c.change("envref", templateLabel("zone", "b"))
	c.untilPod(pod.Name, func(pod *corev1.Pod) error {
		if pod.Labels["zone"] != "b" || pod.Labels[apps.LabelLifecycleState] != apps.LifecycleUpdating || !gate(pod, corev1.ConditionFalse) {
			return fmt.Errorf("labels %v", pod.Labels)
		}
		return nil
	})
	c.witness("envref")
	live := c.pod(pod.Name)
	if !gate(live, corev1.ConditionFalse) {
		c.t.Fatal("the gate was opened before the container was restarted")
	}
	c.annotate(pod.Name, apps.AnnotationRuntimeContainersMeta, fmt.Sprintf(
		`{"containers":[{"name":"app","containerID":%q,"hashes":{"extractedEnvFromMetadataHash":%d}},`+
			`{"name":"log","containerID":%q,"hashes":{"extractedEnvFromMetadataHash":%d}}]}`,
		podstate.ContainerStatus(live, "app").ContainerID, faultapi.AgentHash(`[{"name":"ZONE","value":"b"}]`),
		podstate.ContainerStatus(live, "log").ContainerID, faultapi.AgentHash(`null`)))
	c.until("envref", settled)
}

func nativeSidecar(c *cluster) {
	always := corev1.ContainerRestartPolicyAlways
	c.create(c.cloneSet("sidecar", 2, func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "mesh", Image: "example.test/mesh:v1", RestartPolicy: &always}}
	}))
	before := identities(c.pods("sidecar"))
	c.change("sidecar", func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.InitContainers[0].Image = "example.test/mesh:v2" })
	c.until("sidecar", settled)
	pods := c.pods("sidecar")
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
	for _, pod := range pods {
		mesh, app := pod.Status.InitContainerStatuses[0], pod.Status.ContainerStatuses[0]
		if mesh.Image != "example.test/mesh:v2" || mesh.RestartCount != 1 || app.RestartCount != 0 {
			c.t.Errorf("mesh runs %s after %d restarts, app has %d", mesh.Image, mesh.RestartCount, app.RestartCount)
		}
	}
}

func gracePeriod(c *cluster) {
	grace := func(seconds int32) func(*v1beta1.CloneSet) {
		return rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: seconds}
		})
	}
	c.create(c.cloneSet("grace", 1, grace(3)))
	pod := c.pods("grace")[0]
	w := c.watch("grace", limits{minReady: 0, maxPods: 1})
	c.change("grace", setImage(0, "example.test/app:v2"))
	waiting := c.untilPod(pod.Name, func(pod *corev1.Pod) error {
		if pod.Annotations[apps.AnnotationInPlaceUpdateGrace] == "" {
			return errors.New("no grace period yet")
		}
		return nil
	})
	// Later edits of the spec do not change a grace period that has begun.
	c.change("grace", grace(3600))
	cs := c.until("grace", settled)
	if waiting.Labels[apps.LabelRevision] != cs.Status.UpdateRevision || waiting.Spec.Containers[0].Image != "example.test/app:v1" {
		c.t.Errorf("in the grace period: revision %s, image %s", waiting.Labels[apps.LabelRevision], waiting.Spec.Containers[0].Image)
	}
	started := c.updateOf(waiting).Started
	changed := false
	for _, seen := range w.of(pod.UID) {
		if seen.Labels[apps.LabelRevision] != cs.Status.UpdateRevision {
			continue
		}
		if seen.Spec.Containers[0].Image == "example.test/app:v1" && (podstate.IsReady(seen) || !gate(seen, corev1.ConditionFalse)) {
			c.t.Errorf("ready in the grace period: %+v", seen.Status.Conditions)
		}
		if seen.Spec.Containers[0].Image == "example.test/app:v2" && !changed {
			changed = true
			batches := c.updateOf(seen).Batches
			if len(batches) != 1 {
				c.t.Fatalf("state %s", seen.Annotations[apps.AnnotationInPlaceUpdateState])
			}
			if took := batches[0].At.Sub(started); took < 3*time.Second || took > 10*time.Second {
				c.t.Errorf("the image changed after %s, want 3 s", took)
			}
			if seen.Annotations[apps.AnnotationInPlaceUpdateGrace] != "" {
				c.t.Error("the grace annotation outlasts the grace period")
			}
		}
	}
	if !changed {
		c.t.Error("nobody saw the new image")
	}
}

// updateOf returns the state of a Pod's last update.
func (c *cluster) updateOf(pod *corev1.Pod) *inplaceupdate.State {
	c.t.Helper()
	updater, err := kruise.InPlace(apps.DefaultGates(), apps.ReservedPodLabels())
	if err != nil {
		c.t.Fatal(err)
	}
	state, err := updater.State(pod)
	if err != nil || state == nil {
		c.t.Fatalf("state %+v, %v", state, err)
	}
	return state
}

// barrier gives the containers app and log a launch priority of 10 and 0, as the Pod webhook does.
func (c *cluster) barrier(cs *v1beta1.CloneSet) {
	gates := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: cs.Name + "-barrier"},
		Data:       map[string]string{"p_10": "true", "p_0": "true"},
	}
	if err := c.Create(c.t.Context(), gates); err != nil {
		c.t.Fatal(err)
	}
	for i, key := range []string{"p_10", "p_0"} {
		cs.Spec.Template.Spec.Containers[i].Env = []corev1.EnvVar{{Name: apps.EnvContainerBarrier, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: gates.Name}, Key: key},
		}}}
	}
}

func bothImages(tag string) func(*v1beta1.CloneSet) {
	return both(setImage(0, "example.test/app:"+tag), setImage(1, "example.test/log:"+tag))
}

func priorityBatches(c *cluster) {
	c.create(c.cloneSet("batches", 1, c.barrier))
	pod := c.pods("batches")[0]
	w := c.watch("batches", limits{minReady: 0, maxPods: 1})
	c.change("batches", bothImages("v2"))
	c.until("batches", settled)
	live := c.pod(pod.Name)
	state := c.updateOf(live)
	var order []string
	for _, batch := range state.Batches {
		order = append(order, strings.Join(batch.Containers, "+"))
	}
	if diff := cmp.Diff([]string{"app", "log"}, order); diff != "" || state.Postponed != nil {
		c.t.Errorf("batches (-want +got):\n%s%+v", diff, state)
	}
	for _, seen := range w.of(pod.UID) {
		if app := podstate.ContainerStatus(seen, "app"); seen.Spec.Containers[1].Image == "example.test/log:v2" && (app.Image != "example.test/app:v2" || !app.Ready) {
			c.t.Errorf("log was changed when app ran %s, ready %v", app.Image, app.Ready)
		}
		// Between the two batches of containers, the Pod stays out of service.
		if seen.Spec.Containers[0].Image == "example.test/app:v2" && seen.Spec.Containers[1].Image == "example.test/log:v1" && podstate.IsReady(seen) {
			c.t.Error("the Pod was ready between two batches")
		}
	}
	if live.UID != pod.UID || live.Status.ContainerStatuses[0].RestartCount != 1 || live.Status.ContainerStatuses[1].RestartCount != 1 {
		c.t.Errorf("containers: %+v", live.Status.ContainerStatuses)
	}
}

func priorityBatchBroken(c *cluster) {
	c.create(c.cloneSet("stuck", 1, c.barrier))
	pod := c.pods("stuck")[0]
	c.change("stuck", both(bothImages("v2"), templateAnnotation(controlplane.Unready, "app")))
	c.untilPod(pod.Name, func(pod *corev1.Pod) error {
		if app := podstate.ContainerStatus(pod, "app"); app == nil || app.Image != "example.test/app:v2" {
			return errors.New("app does not run v2 yet")
		}
		return nil
	})
	// While the first Pod waits, the Pod of a second CloneSet is updated in both batches.
	c.create(c.cloneSet("stuck-witness", 1, c.barrier))
	c.change("stuck-witness", bothImages("v2"))
	c.until("stuck-witness", settled)
	if image := c.pod(pod.Name).Spec.Containers[1].Image; image != "example.test/log:v1" {
		c.t.Errorf("log has image %s though app never became ready", image)
	}
	c.change("stuck", both(bothImages("v1"), func(cs *v1beta1.CloneSet) { delete(cs.Spec.Template.Annotations, controlplane.Unready) }))
	c.until("stuck", settled)
	live := c.pod(pod.Name)
	if live.UID != pod.UID || live.Spec.Containers[0].Image != "example.test/app:v1" || live.Spec.Containers[1].Image != "example.test/log:v1" {
		c.t.Errorf("after the rollback: %+v", live.Spec.Containers)
	}
}

func unreadableState(c *cluster) {
	c.create(c.cloneSet("mangled", 3, rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromString("100%")) })))
	before := identities(c.pods("mangled"))
	pod := c.pods("mangled")[1]
	c.annotate(pod.Name, apps.AnnotationInPlaceUpdateState, `{"revision":`)
	c.untilEvent("mangled", apps.EventFailedUpdate, string(inplaceupdate.UnreadableState), apps.AnnotationInPlaceUpdateState)
	c.change("mangled", setImage(0, "example.test/app:v2"))
	c.untilPods("mangled", images(map[string]int{"v1": 1, "v2": 2}))
	c.until("mangled", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, string(inplaceupdate.UnreadableState), pod.Name))
	if live := c.pod(pod.Name); live.Spec.Containers[0].Image != "example.test/app:v1" || !podstate.IsReady(live) {
		c.t.Errorf("the Pod was touched: image %s, ready %v", live.Spec.Containers[0].Image, podstate.IsReady(live))
	}
	c.unannotate(pod.Name, apps.AnnotationInPlaceUpdateState)
	c.until("mangled", settled)
	c.until("mangled", withoutCondition(apps.ConditionFailedUpdate))
	if diff := cmp.Diff(before, identities(c.untilPods("mangled", images(map[string]int{"v2": 3})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

// lostState removes the annotations of a Pod, as a user might do, while the grace period delays the new image.
func lostState(c *cluster) {
	c.create(c.cloneSet("lost", 1, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.PodUpdatePolicy = v1beta1.InPlaceOnly
		ru.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: 3}
	})))
	before := identities(c.pods("lost"))
	pod := c.pods("lost")[0]
	c.change("lost", setImage(0, "example.test/app:v2"))
	c.untilPod(pod.Name, func(pod *corev1.Pod) error {
		if pod.Annotations[apps.AnnotationInPlaceUpdateGrace] == "" {
			return errors.New("no grace period yet")
		}
		return nil
	})
	c.patchPod(pod.Name, `{"metadata":{"annotations":null}}`)
	c.untilEvent("lost", apps.EventFailedUpdatePodInPlace, string(inplaceupdate.StateLost), pod.Name)
	c.until("lost", settled)
	if diff := cmp.Diff(before, identities(c.untilPods("lost", images(map[string]int{"v2": 1})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

func overtaken(c *cluster) {
	c.create(c.cloneSet("overtaken", 2, templateAnnotation(controlplane.StartDelay, "1500ms"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromString("100%"))
	})))
	before := identities(c.pods("overtaken"))
	w := c.watch("overtaken", limits{minReady: 0, maxPods: 2})
	c.change("overtaken", setImage(0, "example.test/app:v2"))
	c.untilPods("overtaken", images(map[string]int{"v2": 2}))
	c.change("overtaken", setImage(0, "example.test/app:v3"))
	cs := c.until("overtaken", settled)
	pods := c.untilPods("overtaken", images(map[string]int{"v3": 2}))
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
	for _, pod := range pods {
		if !gate(&pod, corev1.ConditionTrue) || pod.Status.ContainerStatuses[0].Image != "example.test/app:v3" {
			c.t.Errorf("Pod %s: %+v", pod.Name, pod.Status)
		}
		for _, seen := range w.of(pod.UID) {
			app := podstate.ContainerStatus(seen, "app")
			if seen.Labels[apps.LabelRevision] == cs.Status.UpdateRevision && gate(seen, corev1.ConditionTrue) && app.Image != "example.test/app:v3" {
				c.t.Errorf("the gate of Pod %s was opened when it ran %s", pod.Name, app.Image)
			}
		}
	}
}

func overtakenByLabel(c *cluster) {
	c.create(c.cloneSet("relabel", 1, templateAnnotation(controlplane.StartDelay, "1500ms")))
	pod := c.pods("relabel")[0]
	w := c.watch("relabel", limits{minReady: 0, maxPods: 1})
	c.change("relabel", setImage(0, "example.test/app:v2"))
	c.untilPods("relabel", images(map[string]int{"v2": 1}))
	c.change("relabel", templateLabel("tier", "web"))
	c.until("relabel", settled)
	for _, seen := range w.of(pod.UID) {
		if app := podstate.ContainerStatus(seen, "app"); seen.Spec.Containers[0].Image == "example.test/app:v2" && gate(seen, corev1.ConditionTrue) &&
			(app.Image != "example.test/app:v2" || app.State.Running == nil) {
			c.t.Errorf("the gate was opened when app was %s, %+v", app.Image, app.State)
			break
		}
	}
}

func unsteer(key string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { delete(cs.Spec.Template.Annotations, key) }
}

// overtakenBatches changes the template again before the second batch of an update. The new template contains the
// images of the second batch, too.
func overtakenBatches(c *cluster, name string, change func(*v1beta1.CloneSet), app string) {
	c.create(c.cloneSet(name, 1, c.barrier))
	pod := c.pods(name)[0]
	c.change(name, both(bothImages("v2"), templateAnnotation(controlplane.Unready, "app")))
	c.untilPod(pod.Name, func(pod *corev1.Pod) error {
		if app := podstate.ContainerStatus(pod, "app"); app == nil || app.Image != "example.test/app:v2" {
			return errors.New("app does not run v2 yet")
		}
		return nil
	})
	c.change(name, change)
	c.until(name, settled)
	live := c.pod(pod.Name)
	want := []string{"example.test/app:" + app, "example.test/log:v2"}
	got := []string{live.Status.ContainerStatuses[0].Image, live.Status.ContainerStatuses[1].Image}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("images that run (-want +got):\n%s", diff)
	}
}

func rollbackRevision(c *cluster) {
	cs := c.create(c.cloneSet("rollback", 2))
	first := cs.Status.UpdateRevision
	c.change("rollback", setImage(0, "example.test/app:v2"))
	second := c.until("rollback", settled).Status.UpdateRevision
	c.change("rollback", setImage(0, "example.test/app:v1"))
	cs = c.until("rollback", settled)
	if cs.Status.UpdateRevision != first || cs.Status.CurrentRevision != first || second == first {
		c.t.Errorf("first %s, second %s, after the rollback %+v", first, second, cs.Status)
	}
	got := map[string]int64{}
	for _, rev := range c.revisions(cs) {
		got[rev.Name] = rev.Revision
		if !metav1.IsControlledBy(&rev, cs) {
			c.t.Errorf("revision %s: owners %v", rev.Name, rev.OwnerReferences)
		}
	}
	if diff := cmp.Diff(map[string]int64{first: 3, second: 2}, got); diff != "" {
		c.t.Errorf("revision numbers (-want +got):\n%s", diff)
	}
	c.untilPods("rollback", images(map[string]int{"v1": 2}))
}

// hashCollision finds out the name of a template's revision, and creates another object with this name before the
// template is used again.
func hashCollision(c *cluster) {
	v2 := setImage(0, "example.test/app:v2")
	name := c.create(c.cloneSet("collide", 0, v2)).Status.UpdateRevision
	if err := c.Delete(c.t.Context(), c.get(c.t.Context(), "collide")); err != nil {
		c.t.Fatal(err)
	}
	taken := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Data:       runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}, Revision: 1,
	}
	// The garbage collector would delete the object, too, but up to half a minute later, because the collector learns of
	// the CRD late.
	if err := client.IgnoreNotFound(c.Delete(c.t.Context(), taken.DeepCopy())); err != nil {
		c.t.Fatal(err)
	}
	if err := c.Create(c.t.Context(), taken); err != nil {
		c.t.Fatal(err)
	}
	c.create(c.cloneSet("collide", 2))
	c.change("collide", v2)
	cs := c.until("collide", settled)
	c.untilPods("collide", images(map[string]int{"v2": 2}))
	c.witness("collide") // the collisionCount in the status does not change
	cs = c.get(c.t.Context(), cs.Name)
	if cs.Status.CollisionCount == nil || *cs.Status.CollisionCount != 1 || cs.Status.UpdateRevision == name {
		c.t.Errorf("status %+v", cs.Status)
	}
}

func historyLimit(c *cluster) {
	limit := int32(2)
	c.create(c.cloneSet("history", 1, func(cs *v1beta1.CloneSet) { cs.Spec.RevisionHistoryLimit = &limit }))
	for i := 2; i <= 6; i++ {
		c.change("history", setImage(0, fmt.Sprintf("example.test/app:v%d", i)))
		c.until("history", settled)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(context.Context) error {
		var got []int64
		for _, rev := range c.revisions(c.get(c.t.Context(), "history")) {
			got = append(got, rev.Revision)
		}
		if want := []int64{4, 5, 6}; !slices.Equal(want, got) {
			return fmt.Errorf("revisions %v, want %v", got, want)
		}
		return nil
	})
}

func claimTemplatesOnly(c *cluster) {
	cs := c.create(c.cloneSet("vct", 1, c.withClaims(1)))
	since := c.mark()
	c.change("vct", func(cs *v1beta1.CloneSet) { cs.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"tier": "fast"} })
	after := c.until("vct", settled)
	c.witness("vct")
	if after.Status.UpdateRevision != cs.Status.UpdateRevision {
		c.t.Errorf("revision %s became %s", cs.Status.UpdateRevision, after.Status.UpdateRevision)
	}
	c.wantWrites("writes besides the witness", "vct", since, map[string]int{"create pods": 1, "patch pods/status": 1})
}

func weightPriority(c *cluster) {
	c.create(c.cloneSet("weights", 4, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.Partition = new(intstr.FromInt32(2))
		ru.PriorityStrategy = &pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{
			{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}},
		}}
	})))
	pods := c.pods("weights")
	canaries := []string{pods[1].Name, pods[3].Name}
	for _, name := range canaries {
		c.label(name, "canary", "yes")
	}
	c.change("weights", setImage(0, "example.test/app:v2"))
	c.until("weights", settled)
	var updated []string
	for _, pod := range c.untilPods("weights", images(map[string]int{"v1": 2, "v2": 2})) {
		if pod.Spec.Containers[0].Image == "example.test/app:v2" {
			updated = append(updated, pod.Name)
		}
	}
	slices.Sort(updated)
	slices.Sort(canaries)
	if diff := cmp.Diff(canaries, updated); diff != "" {
		c.t.Errorf("updated first (-want +got):\n%s", diff)
	}
}
