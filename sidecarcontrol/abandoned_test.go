package sidecarcontrol_test

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

func serving(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	return pod
}

// TestAbandonedHotUpgrade: a set of sidecars was deleted during its hot upgrade of a Pod. The unfinished upgrade
// delays upgrades by other sets only for a limited time.
func TestAbandonedHotUpgrade(t *testing.T) {
	c := newControl(t)
	h := sidecarcontrol.Spec{Name: "hot", Selector: selector("app", "web"), Version: "100"}
	h.Containers = append(h.Containers, side("mesh", hot))
	v2 := h
	v2.Version, v2.Containers = "200", []sidecarcontrol.Sidecar{side("mesh", hot, func(s *sidecarcontrol.Sidecar) { s.Image = "mesh:v2" })}
	cold := spec("cold", "log")
	cold2 := spec("cold", "log")
	cold2.Containers[0].Image = "log:v2"

	pod := serving(inject(t, newPod("app"), newSet(t, h), newSet(t, cold)))
	set2 := newSet(t, v2)
	s := c.Read(pod, set2, now)
	change, err := c.Upgrade(&s, set2, now)
	if err != nil {
		t.Fatal(err)
	}
	annotations := maps.Clone(pod.Annotations)
	for k, v := range change.Annotations {
		annotations[k] = *v
	}
	pod.Annotations = annotations
	for i := range pod.Spec.Containers {
		if image, ok := change.Images[pod.Spec.Containers[i].Name]; ok {
			pod.Spec.Containers[i].Image = image
		}
	}
	serving(pod)
	other := serving(inject(t, newPod("app"), newSet(t, cold)))
	other.Name = "other"
	set := newSet(t, cold2)
	for _, tc := range []struct {
		after time.Duration
		held  bool
	}{{time.Minute, true}, {9 * time.Minute, true}, {10 * time.Minute, false}, {time.Hour, false}} {
		at := now.Add(tc.after)
		updated := c.Read(pod, set, at)
		updated.Updated = true // as after the set's own upgrade
		if wait := updated.RequeueAfter; tc.held && wait != 10*time.Minute-tc.after {
			t.Errorf("after %v: look again after %v", tc.after, wait)
		}
		choice := sidecarcontrol.Choose([]sidecarcontrol.Standing{updated, c.Read(other, set, at)}, sidecarcontrol.Rollout{MaxUnavailable: 1})
		if held := len(choice.Upgrade) == 0; held != tc.held {
			t.Errorf("after %v: held up %t, want %t", tc.after, held, tc.held)
		}
	}
}

// TestAbandonedProof: only waiting can prove that a sidecar runs its new image. The sidecar's set was deleted, so no
// reconcile records the start of the wait. Upgrades by other sets are delayed only for a limited time.
func TestAbandonedProof(t *testing.T) {
	c := newControl(t)
	cold2 := spec("cold", "log")
	cold2.Containers[0].Image = "log:v2"
	set := newSet(t, cold2)
	pod := serving(inject(t, newPod("app"), newSet(t, spec("gone", "mesh")), newSet(t, spec("cold", "log"))))
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.ContainerID = "containerd://" + status.Name; status.Name == "mesh" {
			status.Image, status.ImageID = "mesh:other", "mesh@sha256:1111"
		}
	}
	pod.Annotations[stateKey] = `{"gone":{"revision":"2","updateTimestamp":"` + now.UTC().Format(time.RFC3339) +
		`","lastContainerStatuses":{"mesh":{"imageID":"mesh@sha256:1111"}},"updateImages":true}}`
	for _, tc := range []struct {
		after time.Duration
		held  bool
	}{{time.Minute, true}, {9 * time.Minute, true}, {10 * time.Minute, false}, {-2 * time.Minute, false}} {
		at := now.Add(tc.after)
		s := c.Read(pod, set, at)
		if s.Busy != tc.held || tc.held && s.RequeueAfter != 10*time.Minute-tc.after {
			t.Errorf("after %v: busy %t, look again after %v", tc.after, s.Busy, s.RequeueAfter)
		}
		if waiting := c.Unfinished(pod, at); len(waiting) > 0 != tc.held {
			t.Errorf("after %v: unfinished %v", tc.after, waiting)
		}
	}
}

// TestForgedHotUpgrade: annotations about a hot upgrade by a set that does not exist do not delay other sets, if the
// Pod is in service.
func TestForgedHotUpgrade(t *testing.T) {
	c := newControl(t)
	forged := serving(inject(t, newPod("app", "x-1", "x-2"), newSet(t, spec("cold", "log"))))
	forged.Annotations[workingKey] = `{"x":"x-1"}`
	forged.Annotations[versionKey+"x-2"] = "7"
	cold2 := spec("cold", "log")
	cold2.Containers[0].Image = "log:v2"
	set := newSet(t, cold2)
	s := c.Read(forged, set, now)
	s.Updated = true // as after the set's own upgrade
	other := serving(inject(t, newPod("app"), newSet(t, spec("cold", "log"))))
	choice := sidecarcontrol.Choose([]sidecarcontrol.Standing{s, c.Read(other, set, now)}, sidecarcontrol.Rollout{MaxUnavailable: 1})
	if len(choice.Upgrade) == 0 {
		t.Errorf("a Pod that is Ready and updated holds the others up: %v", choice.Limits)
	}
}
