package cloneset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

const (
	hold      = "example.test/hold"
	finalizer = "example.test/finalizer"
)

func TestLifecycle(t *testing.T) {
	behave(t, "", nil, []behaviour{
		{"L-2 preDelete holds scale-in, by label", preDeleteScaleIn},
		{"L-2 preDelete holds a recreating update, by finalizer", preDeleteRecreate},
		{"L-3 L-4 inPlaceUpdate before and after", updateHook},
		{"L-5 a Pod in Updated that needs a newer revision", updateHookAgain},
		{"L-6 rollback while the hook holds the Pod", updateHookRollback},
		{"L-6 partition raised while the hook holds the Pod", updateHookPartition},
		{"L-11 a writer list that nobody can read is reported until it is mended", func(c *cluster) {
			unreadableGate(c, "badgate", apps.LifecyclePreparingUpdate)
		}},
		{"L-11 the same in the middle of an update", func(c *cluster) { unreadableGate(c, "midgate", apps.LifecycleUpdating) }},
		{"L-6 OnDelete while the hook holds the Pod", updateHookOnDelete},
		{"L-7 L-10 preNormal keeps a Pod from being available", preNormal},
		{"L-11 preDelete takes readiness away", notReadyDelete},
		{"L-11 inPlaceUpdate takes readiness away and gives it back", notReadyUpdate},
		{"L-11 a rollback gives readiness back", notReadyRollback},
		{"L-14 a deletion that waits is cancelled", cancelDeletion},
		{"L-14 no cancellation for a specified Pod", cancelNotSpecified},
	})
}

// hooked adds a lifecycle hook with a label: as long as a Pod has the label, the Pod waits for the hook. The template
// gives the label to every Pod.
func hooked(kind func(*pub.Lifecycle, *pub.LifecycleHook), notReady bool) func(*v1beta1.CloneSet) {
	return both(templateLabel(hold, "yes"), func(cs *v1beta1.CloneSet) {
		cs.Spec.Lifecycle = &pub.Lifecycle{}
		kind(cs.Spec.Lifecycle, &pub.LifecycleHook{LabelsHandler: map[string]string{hold: "yes"}, MarkPodNotReady: notReady})
		if notReady {
			cs.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}}
		}
	})
}

func onPreDelete(l *pub.Lifecycle, hook *pub.LifecycleHook) { l.PreDelete = hook }
func onUpdate(l *pub.Lifecycle, hook *pub.LifecycleHook)    { l.InPlaceUpdate = hook }

func preDeleteScaleIn(c *cluster) {
	c.create(c.cloneSet("drain", 2, hooked(onPreDelete, false)))
	c.change("drain", setReplicas(1))
	pods := c.untilPods("drain", func(pods []corev1.Pod) error {
		slices.SortFunc(pods, func(a, b corev1.Pod) int {
			return strings.Compare(b.Labels[apps.LabelLifecycleState], a.Labels[apps.LabelLifecycleState])
		})
		return errors.Join(count(2)(pods), state(apps.LifecyclePreparingDelete)(&pods[0]), state(apps.LifecycleNormal)(&pods[1]))
	})
	c.witness("drain")
	if pod := c.pod(pods[0].Name); pod.DeletionTimestamp != nil || !podstate.IsReady(pod) {
		c.t.Error("the Pod did not wait for its hook in service")
	}
	c.unlabel(pods[0].Name, hold)
	c.untilGone(pods[0].Name)
	c.until("drain", settled)
}

func preDeleteRecreate(c *cluster) {
	c.create(c.cloneSet("save", 2, policy(v1beta1.ReCreate), func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Finalizers = []string{finalizer}
		cs.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{FinalizersHandler: []string{finalizer}}}
	}))
	c.change("save", setImage(0, "example.test/app:v2"))
	// The budget is a single Pod: the second Pod waits until the first Pod has been replaced.
	for range 2 {
		var held corev1.Pod
		c.untilPods("save", func(pods []corev1.Pod) error {
			waiting := slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
				return pod.Labels[apps.LabelLifecycleState] != apps.LifecyclePreparingDelete
			})
			if len(pods) != 2 || len(waiting) != 1 {
				return fmt.Errorf("%d of %d Pods wait for their hook, want 1 of 2", len(waiting), len(pods))
			}
			held = waiting[0]
			return nil
		})
		if _, ok := held.Labels[apps.LabelSpecifiedDelete]; !ok {
			c.t.Errorf("Pod %s is not marked for deletion: %v", held.Name, held.Labels)
		}
		c.patchPod(held.Name, `{"metadata":{"finalizers":[]}}`)
		c.untilGone(held.Name)
	}
	c.until("save", settled)
	c.untilPods("save", images(map[string]int{"v2": 2}))
	for _, pod := range c.pods("save") { // otherwise the namespace could not be deleted
		c.patchPod(pod.Name, `{"metadata":{"finalizers":[]}}`)
	}
}

func updateHook(c *cluster) {
	c.create(c.cloneSet("hook", 2, hooked(onUpdate, false)))
	before := identities(c.pods("hook"))
	since := c.mark()
	c.change("hook", setImage(0, "example.test/app:v2"))
	var held string
	c.untilPods("hook", func(pods []corev1.Pod) error {
		for _, pod := range pods {
			if pod.Labels[apps.LabelLifecycleState] == apps.LifecyclePreparingUpdate {
				held = pod.Name
				return nil
			}
		}
		return errors.New("no Pod is in PreparingUpdate")
	})
	c.witness("hook")
	if pod := c.pod(held); pod.Spec.Containers[0].Image != "example.test/app:v1" || !podstate.IsReady(pod) {
		c.t.Errorf("the Pod did not wait for its hook in service: %+v", pod.Status)
	}
	// The waiting Pod uses up maxUnavailable, which is 1.
	want := map[string]int{"patch pods": 1, "create pods": 1, "patch pods/status": 1}
	c.wantWrites("writes, those for the witness included", "hook", since, want)
	c.unlabel(held, hold)
	c.untilPod(held, state(apps.LifecycleUpdated))
	c.witness("hook-after")
	if pod := c.pod(held); pod.Spec.Containers[0].Image != "example.test/app:v2" || pod.Labels[apps.LabelLifecycleState] != apps.LifecycleUpdated {
		c.t.Errorf("the Pod did not wait for its hook to come back: %v", pod.Labels)
	}
	c.until("hook", func(cs *v1beta1.CloneSet) error {
		if cs.Status.ReadyReplicas != 2 || cs.Status.AvailableReplicas != 1 || cs.Status.UpdatedReplicas != 1 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	c.label(held, hold, "yes")
	c.untilPod(held, state(apps.LifecycleNormal))
	other := c.untilOther("hook", held, apps.LifecyclePreparingUpdate)
	c.unlabel(other, hold)
	c.untilPod(other, state(apps.LifecycleUpdated))
	c.label(other, hold, "yes")
	c.until("hook", settled)
	if diff := cmp.Diff(before, identities(c.untilPods("hook", images(map[string]int{"v2": 2})))); diff != "" {
		c.t.Errorf("not in place (-before +after):\n%s", diff)
	}
}

// untilOther waits until a Pod with another name than than is in the wanted state.
func (c *cluster) untilOther(name, than, want string) (other string) {
	c.t.Helper()
	c.untilPods(name, func(pods []corev1.Pod) error {
		for i := range pods {
			if pods[i].Name != than && state(want)(&pods[i]) == nil {
				other = pods[i].Name
				return nil
			}
		}
		return errors.New("no other Pod is in state " + want)
	})
	return other
}

func updateHookAgain(c *cluster) {
	c.create(c.cloneSet("again", 1, hooked(onUpdate, false)))
	pod := c.pods("again")[0].Name
	c.change("again", setImage(0, "example.test/app:v2"))
	c.untilPod(pod, state(apps.LifecyclePreparingUpdate))
	c.unlabel(pod, hold)
	c.untilPod(pod, state(apps.LifecycleUpdated))
	c.change("again", setImage(0, "example.test/app:v3"))
	live := c.untilPod(pod, state(apps.LifecyclePreparingUpdate))
	if live.Labels[hold] != "yes" || live.Spec.Containers[0].Image != "example.test/app:v2" {
		c.t.Errorf("labels %v, image %s", live.Labels, live.Spec.Containers[0].Image)
	}
	c.unlabel(pod, hold)
	c.untilPod(pod, state(apps.LifecycleUpdated))
	c.label(pod, hold, "yes")
	c.until("again", settled)
	c.untilPods("again", images(map[string]int{"v3": 1}))
}

func updateHookRollback(c *cluster) {
	c.create(c.cloneSet("undo", 1, hooked(onUpdate, false)))
	pod := c.pods("undo")[0]
	since := c.mark()
	c.change("undo", setImage(0, "example.test/app:v2"))
	c.untilPod(pod.Name, state(apps.LifecyclePreparingUpdate))
	c.change("undo", setImage(0, "example.test/app:v1"))
	live := c.untilPod(pod.Name, state(apps.LifecycleNormal))
	c.until("undo", settled)
	if live.Generation != pod.Generation || live.Status.ContainerStatuses[0].RestartCount != 0 || !podstate.IsReady(live) {
		c.t.Errorf("the Pod was touched: generation %d, %+v", live.Generation, live.Status)
	}
	c.wantWrites("writes", "undo", since, map[string]int{"patch pods": 2})
}

func updateHookPartition(c *cluster) {
	c.create(c.cloneSet("keepold", 2, hooked(onUpdate, false)))
	c.change("keepold", setImage(0, "example.test/app:v2"))
	pod := c.untilOther("keepold", "", apps.LifecyclePreparingUpdate)
	c.change("keepold", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = new(intstr.FromInt32(2)) }))
	c.untilPod(pod, state(apps.LifecycleNormal))
	c.until("keepold", settled)
	c.untilPods("keepold", images(map[string]int{"v1": 2}))
}

// unreadableGate checks an update during which a user overwrites the message of the condition KruisePodReady. The
// message lists the clients that keep the Pod's readiness gate closed. The user does this while the Pod is in the
// given lifecycle state.
func unreadableGate(c *cluster, name, when string) {
	c.create(c.cloneSet(name, 1, hooked(onUpdate, true), templateAnnotation(controlplane.StartDelay, "3s")))
	pod := c.pods(name)[0].Name
	c.change(name, setImage(0, "example.test/app:v2"))
	c.untilPod(pod, state(apps.LifecyclePreparingUpdate))
	gate := corev1.PodCondition{Type: apps.ConditionKruisePodReady, Status: corev1.ConditionFalse, Message: "by hand"}
	if when == apps.LifecyclePreparingUpdate {
		c.setCondition(pod, gate)
	}
	c.unlabel(pod, hold)
	if when == apps.LifecycleUpdating {
		c.untilPod(pod, state(when))
		c.setCondition(pod, gate)
	}
	reported := hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, string(podreadiness.UnreadableMessage), pod)
	c.until(name, reported)
	c.witness(name)
	c.until(name, reported)
	gate.Status, gate.Message = corev1.ConditionTrue, "[]"
	c.setCondition(pod, gate)
	c.untilPod(pod, state(apps.LifecycleUpdated))
	c.label(pod, hold, "yes")
	c.until(name, settled)
	c.until(name, withoutCondition(apps.ConditionFailedUpdate))
}

// updateHookOnDelete checks a change to OnDelete while a Pod waits for its update hook. The Pod is not updated, and
// becomes ready again.
func updateHookOnDelete(c *cluster) {
	c.create(c.cloneSet("ondel", 2, hooked(onUpdate, true)))
	c.change("ondel", setImage(0, "example.test/app:v2"))
	pod := c.untilOther("ondel", "", apps.LifecyclePreparingUpdate)
	c.change("ondel", func(cs *v1beta1.CloneSet) { cs.Spec.UpdateStrategy.Type = v1beta1.OnDelete })
	c.untilPod(pod, state(apps.LifecycleNormal))
	c.untilPod(pod, kruiseReady(corev1.ConditionTrue, "[]"))
	c.untilPods("ondel", images(map[string]int{"v1": 2}))
}

func preNormal(c *cluster) {
	cs := c.cloneSet("warmup", 2, func(cs *v1beta1.CloneSet) {
		cs.Spec.Lifecycle = &pub.Lifecycle{PreNormal: &pub.LifecycleHook{LabelsHandler: map[string]string{"warm": "yes"}}}
	})
	if err := c.Create(c.t.Context(), cs); err != nil {
		c.t.Fatal(err)
	}
	c.until("warmup", func(cs *v1beta1.CloneSet) error {
		if cs.Status.ReadyReplicas != 2 || cs.Status.AvailableReplicas != 0 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	for _, pod := range c.pods("warmup") {
		if err := state(apps.LifecyclePreparingNormal)(&pod); err != nil {
			c.t.Error(err)
		}
		c.label(pod.Name, "warm", "yes")
		c.untilPod(pod.Name, state(apps.LifecycleNormal))
	}
	c.until("warmup", settled)
}

// kruiseReady waits until the condition KruisePodReady has the status and message.
func kruiseReady(status corev1.ConditionStatus, message string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		have := podstate.Condition(pod, apps.ConditionKruisePodReady)
		if have == nil || have.Status != status || have.Message != message {
			return fmt.Errorf("Pod %s: KruisePodReady is %+v", pod.Name, have)
		}
		if podstate.IsReady(pod) != (status == corev1.ConditionTrue) {
			return fmt.Errorf("Pod %s: ready is %v", pod.Name, podstate.IsReady(pod))
		}
		return nil
	}
}

const (
	heldForUpdate = `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`
	heldForDelete = `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
)

func notReadyDelete(c *cluster) {
	c.create(c.cloneSet("drained", 1, hooked(onPreDelete, true)))
	pod := c.pods("drained")[0].Name
	c.change("drained", setReplicas(0))
	c.untilPod(pod, kruiseReady(corev1.ConditionFalse, heldForDelete))
	// The user who drains the Pod relies on the Pod's deletion, so the deletion is not cancelled. A second Pod is
	// created beside the Pod.
	c.change("drained", setReplicas(2))
	c.untilPods("drained", count(2))
	if err := state(apps.LifecyclePreparingDelete)(c.pod(pod)); err != nil {
		c.t.Error(err)
	}
	c.unlabel(pod, hold)
	c.untilGone(pod)
	c.until("drained", settled)
}

func notReadyUpdate(c *cluster) {
	c.create(c.cloneSet("offline", 1, hooked(onUpdate, true)))
	pod := c.pods("offline")[0].Name
	c.change("offline", setImage(0, "example.test/app:v2"))
	c.untilPod(pod, kruiseReady(corev1.ConditionFalse, heldForUpdate))
	c.unlabel(pod, hold)
	c.untilPod(pod, state(apps.LifecycleUpdated))
	c.untilPod(pod, kruiseReady(corev1.ConditionTrue, "[]"))
	c.label(pod, hold, "yes")
	c.until("offline", settled)
}

func notReadyRollback(c *cluster) {
	c.create(c.cloneSet("online", 1, hooked(onUpdate, true)))
	pod := c.pods("online")[0].Name
	c.change("online", setImage(0, "example.test/app:v2"))
	c.untilPod(pod, kruiseReady(corev1.ConditionFalse, heldForUpdate))
	c.change("online", setImage(0, "example.test/app:v1"))
	c.untilPod(pod, state(apps.LifecycleNormal))
	c.untilPod(pod, kruiseReady(corev1.ConditionTrue, "[]"))
	c.until("online", settled)
}

func cancelDeletion(c *cluster) {
	c.create(c.cloneSet("cancel", 3, hooked(onPreDelete, false)))
	before := identities(c.pods("cancel"))
	c.change("cancel", setReplicas(1))
	c.untilPods("cancel", func(pods []corev1.Pod) error {
		n := 0
		for i := range pods {
			if state(apps.LifecyclePreparingDelete)(&pods[i]) == nil {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d Pods are in PreparingDelete, want 2", n)
		}
		return nil
	})
	c.change("cancel", setReplicas(3))
	c.until("cancel", settled)
	pods := c.pods("cancel")
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		c.t.Errorf("other Pods than before (-before +after):\n%s", diff)
	}
	for i := range pods {
		if err := state(apps.LifecycleNormal)(&pods[i]); err != nil {
			c.t.Error(err)
		}
	}
}

func cancelNotSpecified(c *cluster) {
	c.create(c.cloneSet("doomed", 2, hooked(onPreDelete, false)))
	pod := c.pods("doomed")[0].Name
	c.label(pod, apps.LabelSpecifiedDelete, "true")
	c.untilPod(pod, state(apps.LifecyclePreparingDelete))
	c.change("doomed", setReplicas(4))
	c.untilPods("doomed", count(4))
	c.witness("doomed")
	if err := state(apps.LifecyclePreparingDelete)(c.pod(pod)); err != nil {
		c.t.Error(err)
	}
	c.unlabel(pod, hold)
	c.untilGone(pod)
	c.until("doomed", settled)
}
