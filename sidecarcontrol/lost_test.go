package sidecarcontrol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// TestLostState: during an upgrade, a Pod does not count as in service before its node runs the new image, even if
// somebody changes the recorded state.
func TestLostState(t *testing.T) {
	version := func(image string) *sidecarcontrol.Set {
		s := spec("one", "a", "b")
		s.InitContainers = []sidecarcontrol.Sidecar{native("n")}
		s.Containers[0].Image = image
		return newSet(t, s)
	}
	c, v1, v2, later := newControl(t), version("a:v1"), version("a:v2"), now.Add(time.Hour)
	for _, lose := range []string{"", "{}", `{"one":{}}`} {
		pod := injected(t, v1, newSet(t, spec("two", "c")))
		pod.CreationTimestamp = metav1.NewTime(now.Add(-1))
		standing := c.Read(pod, v2, later)
		change, err := c.Upgrade(&standing, v2, later)
		if err != nil {
			t.Fatal(err)
		}
		pod = send(t, pod, change)
		pod.Annotations[keys().StateAnnotation] = lose
		standing = c.Read(pod, v2, later)
		if standing.Serves() || !errors.Is(standing.Waiting, inplaceupdate.StateLost) || len(standing.Waiting) != 1 {
			t.Errorf("state %q: serves %t, waiting %v", lose, standing.Serves(), standing.Waiting)
		}
		if waiting := c.Unfinished(pod, later); len(waiting) != 1 {
			t.Errorf("state %q: unfinished %v", lose, waiting)
		}
		if other := c.Read(pod, newSet(t, spec("two", "c")), later); !other.Busy {
			t.Errorf("state %q: another set does not wait", lose)
		}
		node(pod)
		if standing = c.Read(pod, v2, later); !standing.Serves() || len(c.Unfinished(pod, later)) > 0 {
			t.Errorf("state %q: waiting %v", lose, standing.Waiting)
		}
	}
}

// TestFlipAfterLostState: a hot upgrade continues after somebody has removed its state. Another set counts the Pod as
// out of service for ten minutes and not longer, because the set of the hot sidecar may have been deleted.
func TestFlipAfterLostState(t *testing.T) {
	version := func(image string) *sidecarcontrol.Set {
		s := spec("one", "proxy")
		s.Containers = append(s.Containers, side("mesh", hot, func(s *sidecarcontrol.Sidecar) { s.Image = image }))
		return newSet(t, s)
	}
	c, v2, two, later := newControl(t), version("mesh:v2"), newSet(t, spec("two", "c")), now.Add(time.Hour)
	pod := injected(t, version("mesh:v1"), two)
	pod.CreationTimestamp = metav1.NewTime(now.Add(-1))
	standing := c.Read(pod, v2, later)
	change, err := c.Upgrade(&standing, v2, later)
	if err != nil {
		t.Fatal(err)
	}
	pod = send(t, pod, change)
	node(pod)
	for _, tc := range []struct {
		name  string
		state func()
		after time.Duration
		busy  bool
	}{
		{"with a state", func() {}, time.Minute, true},
		{"lost", func() { delete(pod.Annotations, keys().StateAnnotation) }, time.Minute, true},
		{"lost long ago", func() {}, 10 * time.Minute, false},
	} {
		tc.state()
		s := c.Read(pod, two, later.Add(tc.after))
		if s.Busy != tc.busy || tc.busy && s.RequeueAfter != 10*time.Minute-tc.after {
			t.Errorf("%s: busy %t, look again after %v", tc.name, s.Busy, s.RequeueAfter)
		}
	}
}

// TestUpgradeAfterLostState: a further upgrade waits for the containers of an upgrade whose state somebody has
// removed, and does not change the working twin of a hot sidecar.
func TestUpgradeAfterLostState(t *testing.T) {
	version := func(image, proxy string) *sidecarcontrol.Set {
		s := spec("one", "proxy")
		s.Containers[0].Image = proxy
		s.Containers = append(s.Containers, side("mesh", hot, func(s *sidecarcontrol.Sidecar) { s.Image = image }))
		return newSet(t, s)
	}
	c, later := newControl(t), now.Add(time.Hour)
	upgrade := func(pod *corev1.Pod, set *sidecarcontrol.Set) *corev1.Pod {
		t.Helper()
		standing := c.Read(pod, set, later)
		change, err := c.Upgrade(&standing, set, later)
		if err != nil {
			t.Fatal(err)
		}
		return send(t, pod, change)
	}
	pod := injected(t, version("mesh:v1", "proxy:v1"))
	pod.CreationTimestamp = metav1.NewTime(now.Add(-1))
	pod = upgrade(pod, version("mesh:v2", "proxy:v1"))
	delete(pod.Annotations, keys().StateAnnotation)
	pod.Status.ObservedGeneration = pod.Generation // the node has not restarted the container
	pod = upgrade(pod, version("mesh:v2", "proxy:v2"))
	pod.Status.ObservedGeneration = pod.Generation
	set := version("mesh:v2", "proxy:v2")
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == "proxy" {
			status.Image, status.ImageID = "proxy:v2", "sha256:proxy:v2"
		}
	}
	if standing := c.Read(pod, set, later); standing.Serves() || !strings.Contains(standing.Waiting.String(), "mesh-2") {
		t.Errorf("serves %t, waiting %v", standing.Serves(), standing.Waiting)
	}
	got := images(upgrade(pod, version("mesh:v3", "proxy:v2")))
	if got["mesh-1"] != "mesh:v1" || got["mesh-2"] != "mesh:v3" {
		t.Errorf("the serving twin is changed: %v", got)
	}
	node(pod)
	if standing := c.Read(pod, set, later); len(standing.Waiting) != 1 || !errors.Is(standing.Waiting, sidecarcontrol.FlipPending) {
		t.Errorf("all run, and the upgrade waits for %v", standing.Waiting)
	}
}

// TestNotLost: no state of an upgrade counts as lost in these cases: the node reports the image by another name or by
// an ID, the clocks of webhook and API server differ, or the API server (before Kubernetes 1.33) counts no
// generations of Pods.
func TestNotLost(t *testing.T) {
	version := func(image string) *sidecarcontrol.Set {
		s := spec("one", "a")
		s.Containers[0].Image = image
		return newSet(t, s)
	}
	for name, tc := range map[string]struct {
		image   string
		upgrade bool
		after   time.Duration
		want    bool
	}{
		"another tag, of a Pod that was never upgraded": {"mirror.test/a:stable", false, time.Second, true},
		"another tag, a moment after the upgrade":       {"mirror.test/a:stable", true, time.Minute, false},
		"another tag, long after the upgrade":           {"mirror.test/a:stable", true, 11 * time.Minute, true},
		"an ID, because the tag was moved":              {"sha256:0123", true, time.Minute, true},
		"the image of before":                           {"a:v1", true, time.Minute, false},
		"the right image":                               {"docker.io/library/a:v2", true, time.Minute, true},
	} {
		for _, generation := range []int64{0, 1, 5} {
			c, set := newControl(t), version("a:v1")
			pod := injected(t, set)
			pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Second)) // the clock of the webhook is ahead
			at := now.Add(time.Hour)
			if tc.upgrade {
				set = version("a:v2")
				standing := c.Read(pod, set, at)
				change, err := c.Upgrade(&standing, set, at)
				if err != nil {
					t.Fatal(err)
				}
				pod = send(t, pod, change)
				delete(pod.Annotations, keys().StateAnnotation)
			}
			pod.Generation, pod.Status.ObservedGeneration = generation, generation
			for i := range pod.Status.ContainerStatuses {
				if pod.Status.ContainerStatuses[i].Name == "a" {
					pod.Status.ContainerStatuses[i].Image = tc.image
				}
			}
			if standing := c.Read(pod, set, at.Add(tc.after)); standing.Serves() != tc.want || !tc.want && standing.RequeueAfter <= 0 {
				t.Errorf("%s, generation %d: waiting %v, again in %s", name, generation, standing.Waiting, standing.RequeueAfter)
			}
		}
	}
}

// TestForgedLostRecords: a user who may write a Pod can write annotations of any length and with any times, and the
// functions must cope with them.
func TestForgedLostRecords(t *testing.T) {
	c, set := newControl(t), newSet(t, spec("one", "a"))
	pod := injected(t, set)
	names, hashes, without := []string{"one"}, map[string]any{}, map[string]any{}
	for i := range 99 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	for _, name := range names {
		hashes[name] = map[string]any{"updateTimestamp": now.Add(time.Minute), "sidecarList": slices.Repeat([]string{"a"}, 100)}
		without[name] = map[string]any{"updateTimestamp": now}
	}
	pod.Annotations[keys().InjectedAnnotation] = strings.Join(names, ",")
	for key, value := range map[string]any{keys().HashAnnotation: hashes, keys().HashWithoutImagesAnnotation: without} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations[key] = string(text)
	}
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Image = "mirror.test/other:stable"
	}
	if n := len(c.Unfinished(pod, now.Add(2*time.Minute))); n != len(names) {
		t.Errorf("%d reasons for %d sets with a container each", n, len(names))
	}
	for name, at := range map[string]time.Time{"before the times of the records": now.Add(-time.Hour), "long after": now.Add(time.Hour)} {
		if waiting := c.Unfinished(pod, at); len(waiting) > 0 {
			t.Errorf("%s: %d reasons", name, len(waiting))
		}
	}
	if s := c.Read(pod, nil, now); s.Injected {
		t.Errorf("of no set: %+v", s)
	}
}
