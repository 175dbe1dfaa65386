package sidecarcontrol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// node writes the status that a kubelet reports when all containers run the images of the spec, and all but the
// unready containers are ready.
func node(pod *corev1.Pod, unready ...string) {
	report := func(list []corev1.Container, statuses []corev1.ContainerStatus) (out []corev1.ContainerStatus) {
		for i := range list {
			c := &list[i]
			status := corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, ImageID: "sha256:" + c.Image, ContainerID: "c://" + c.Name + "/" + c.Image, Ready: true,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}
			for _, name := range unready {
				if name == c.Name {
					status.Ready = false
				}
			}
			out = append(out, status)
		}
		return out
	}
	pod.Status.ContainerStatuses = report(pod.Spec.Containers, pod.Status.ContainerStatuses)
	pod.Status.InitContainerStatuses = report(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ObservedGeneration = pod.Generation
	ready := corev1.ConditionTrue
	if len(unready) > 0 {
		ready = corev1.ConditionFalse
	}
	pod.Status.Conditions = append(without(pod.Status.Conditions, corev1.PodReady), corev1.PodCondition{Type: corev1.PodReady, Status: ready})
}

func without(conditions []corev1.PodCondition, kind corev1.PodConditionType) (out []corev1.PodCondition) {
	for _, c := range conditions {
		if c.Type != kind {
			out = append(out, c)
		}
	}
	return out
}

// send applies a change as the API server does.
func send(t testing.TB, pod *corev1.Pod, change podpatch.Change) *corev1.Pod {
	t.Helper()
	patches, err := podpatch.Merge(pod, now, change)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range patches.Requests {
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		patched, err := strategicpatch.StrategicMergePatch(raw, request.Body, corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		next := &corev1.Pod{}
		if err := json.Unmarshal(patched, next); err != nil {
			t.Fatal(err)
		}
		if request.Subresource == "" && !cmp.Equal(pod.Spec, next.Spec) {
			next.Generation++
		}
		pod = next
	}
	return pod
}

// injected returns a running Pod with the sidecars of the sets.
func injected(t testing.TB, sets ...*sidecarcontrol.Set) *corev1.Pod {
	t.Helper()
	pod := newPod("app")
	pod.UID, pod.Generation = "u", 1
	inject(t, pod, sets...)
	node(pod)
	return pod
}

// images returns the images in the spec of a Pod, by container.
func images(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out[list[i].Name] = list[i].Image
		}
	}
	return out
}

func TestUpgrade(t *testing.T) {
	c := newControl(t)
	s := spec("one", "a", "b")
	s.InitContainers = []sidecarcontrol.Sidecar{native("n"), side("plain")}
	pod := injected(t, newSet(t, s))
	s2 := spec("one", "a", "b")
	s2.InitContainers = []sidecarcontrol.Sidecar{native("n"), side("plain")}
	s2.Containers[0].Image, s2.InitContainers[0].Image, s2.InitContainers[1].Image = "a:v2", "n:v2", "plain:v2"
	s2.Revision, s2.Annotations = "one-2", []sidecarcontrol.AnnotationPatch{{Annotations: map[string]string{"new": "x"}}}
	set := newSet(t, s2)

	standing := c.Read(pod, set, now)
	if !standing.Injected || standing.Updated || standing.Blocked != nil || !standing.Serves() {
		t.Fatalf("before: %+v", standing)
	}
	change, err := c.Upgrade(&standing, set, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if change.ResourceVersion != "" {
		t.Error("a Pod with one set needs no precondition, its kubelet would make it fail")
	}
	pod = send(t, pod, change)
	if diff := cmp.Diff(map[string]string{"a": "a:v2", "b": "b:v1", "n": "n:v2", "plain": "plain:v1", "app": "app:v1"}, images(pod)); diff != "" {
		t.Errorf("SU-14 images (-want +got):\n%s", diff)
	}
	if c.RevisionOf(pod, "one") != "one-2" || pod.Annotations["new"] != "x" {
		t.Errorf("SC-55 annotations %v", pod.Annotations)
	}
	if standing = c.Read(pod, set, now); !standing.Updated || len(standing.Waiting) == 0 || standing.Serves() || standing.Settled() {
		t.Errorf("SU-6 the node has not restarted anything, and the Pod stands: %+v", standing)
	}
	node(pod)
	if standing = c.Read(pod, set, now); !standing.Updated || !standing.Serves() || !standing.Settled() {
		t.Errorf("after: %+v", standing)
	}
	if later := c.Read(pod, set, now.Add(24*time.Hour)); !later.Updated || !later.Serves() || !later.Settled() {
		t.Errorf("it was settled, and a day later stands: %+v", later)
	}
	if again, err := c.Upgrade(&standing, set, now); err != nil || len(again.Images) > 0 || len(again.Annotations) > 0 {
		t.Errorf("an upgrade of an upgraded Pod writes %+v (%v)", again, err)
	}
}

// TestTwoSets: the writes of a set keep the records of another set unchanged.
func TestTwoSets(t *testing.T) {
	c := newControl(t)
	one, two := newSet(t, spec("one", "a")), newSet(t, spec("two", "b"))
	pod := injected(t, one, two)
	pod.ResourceVersion = "7"
	s := spec("two", "b")
	s.Containers[0].Image = "b:v2"
	next := newSet(t, s)
	standing := c.Read(pod, next, now)
	change, err := c.Upgrade(&standing, next, now)
	if err != nil || change.ResourceVersion != "7" {
		t.Fatalf("precondition %q (%v), want 7", change.ResourceVersion, err)
	}
	pod = send(t, pod, change)
	if s := c.Read(pod, one, now); !s.Updated || len(s.Waiting) > 0 || !s.Busy || s.Settled() {
		t.Errorf("the other set stands %+v", s)
	}
	node(pod)
	if s := c.Read(pod, one, now); !s.Updated || s.Busy {
		t.Errorf("the other set stands %+v", s)
	}
}

// TestFreeToTake: a Pod that is out of service is upgraded even if MaxUnavailable is reached. The patch fails if the
// Pod has returned to service in the meantime.
func TestFreeToTake(t *testing.T) {
	c := newControl(t)
	s := spec("one", "a")
	s.Containers[0].Image = "a:v2"
	next := newSet(t, s)
	s3 := spec("one", "a")
	s3.Containers[0].Image = "a:v3"
	last := newSet(t, s3)
	for _, test := range []struct {
		name  string
		begin func(pod *corev1.Pod) *corev1.Pod
		want  string
	}{
		{"serves", func(pod *corev1.Pod) *corev1.Pod { return pod }, ""},
		{"is not ready", func(pod *corev1.Pod) *corev1.Pod { node(pod, "app"); return pod }, "7"},
		{"has a sidecar that is not ready", func(pod *corev1.Pod) *corev1.Pod { node(pod, "a"); return pod }, "7"},
		{"an upgrade goes on that its node has not seen", func(pod *corev1.Pod) *corev1.Pod {
			standing := c.Read(pod, next, now)
			change, err := c.Upgrade(&standing, next, now)
			if err != nil {
				t.Fatal(err)
			}
			return send(t, pod, change)
		}, "7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := injected(t, newSet(t, spec("one", "a")))
			pod = test.begin(pod)
			pod.ResourceVersion = "7"
			standing := c.Read(pod, last, now)
			change, err := c.Upgrade(&standing, last, now)
			if err != nil || len(change.Images) == 0 || change.ResourceVersion != test.want {
				t.Errorf("precondition %q, images %v (%v), want %q", change.ResourceVersion, change.Images, err, test.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	c := newControl(t)
	s := spec("one", "a")
	s.Containers = append(s.Containers, side("mesh", hot))
	set := newSet(t, s)
	for _, tc := range []struct {
		name                        string
		edit                        func(*corev1.Pod)
		injected, updated, upgrades bool
	}{
		{"SU-2 as injected", func(*corev1.Pod) {}, true, true, true},
		{"SU-2 not listed", func(pod *corev1.Pod) { pod.Annotations[injectedKey] = "other" }, false, false, false},
		{"SU-2 a container is gone", func(pod *corev1.Pod) { pod.Spec.Containers = pod.Spec.Containers[1:] }, false, false, false},
		{"SU-2 no word about which of two works", func(pod *corev1.Pod) { delete(pod.Annotations, workingKey) }, false, false, false},
		{"SU-7 another hash", func(pod *corev1.Pod) { pod.Annotations[hashKey] = `{"one":{"hash":"x"}}` }, true, false, true},
		{"SC-16 a hash alone", func(pod *corev1.Pod) { pod.Annotations[hashKey] = fmt.Sprintf(`{"one":%q}`, set.Hash()) }, true, true, true},
		{"SU-8 another hash without images", func(pod *corev1.Pod) { pod.Annotations[plainKey] = `{"one":{"hash":"x"}}` }, true, true, false},
		{"SU-6 a record that is no JSON", func(pod *corev1.Pod) { pod.Annotations[hashKey] = `{` }, true, false, false},
		{"SU-6 a state that is no JSON", func(pod *corev1.Pod) { pod.Annotations[stateKey] = `{"one":3}` }, true, true, false},
		{"which of two works is no JSON", func(pod *corev1.Pod) { pod.Annotations[workingKey] = `3` }, true, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := injected(t, set)
			tc.edit(pod)
			got := c.Read(pod, set, now)
			if got.Injected != tc.injected || got.Updated != tc.updated || (got.Injected && len(got.Blocked) == 0) != tc.upgrades {
				t.Errorf("injected %v, updated %v, blocked %v", got.Injected, got.Updated, got.Blocked)
			}
			if _, err := c.Upgrade(&got, set, now); tc.injected && (err == nil) != tc.upgrades {
				t.Errorf("Upgrade: %v", err)
			}
		})
	}
}

// TestForgedRecords: with forged annotations on a Pod, Upgrade changes only containers of the set, and Choose does
// not count the Pod as out of service.
func TestForgedRecords(t *testing.T) {
	c := newControl(t)
	s := spec("one", "a")
	s.Containers = append(s.Containers, side("mesh", hot))
	set := newSet(t, s)
	const forged = `"revision":"x","updateTimestamp":"2020-01-01T00:00:00Z","lastContainerStatuses":{"app":{"imageID":"x"}}`
	for _, tc := range []struct{ name, key, value string }{
		{"another image of the application", stateKey, `{"one":{"revision":"x","updateTimestamp":"2020-01-01T00:00:00Z","lastContainerStatuses":{},"nextContainerImages":{"app":"evil:v9"}}}`},
		{"other resources", stateKey, `{"one":{"revision":"x","updateTimestamp":"2020-01-01T00:00:00Z","lastContainerStatuses":{},"nextContainerResources":{"app":{"limits":{"cpu":"3"}}}}}`},
		{"resources that were never sent", stateKey, `{"one":{"revision":"x","updateTimestamp":"2020-01-01T00:00:00Z","lastContainerStatuses":{},"updateResources":true,"batchResources":{"app":{"limits":{"cpu":"3"}}}}}`},
		{"an upgrade of a set that the Pod does not have", stateKey, `{"other":{` + forged + `,"updateImages":true}}`},
		{"no JSON", stateKey, "junk"},
		{"a state that is no object", stateKey, `{"one":3}`},
		{"a hot upgrade of containers that the Pod does not have", workingKey, `{"mesh":"mesh-1","zzz":"a"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := injected(t, set)
			pod.Annotations[tc.key], pod.Annotations[versionKey+"zzz-1"] = tc.value, "7"
			got := c.Read(pod, set, now)
			if !got.Note.IsEmpty() || got.Busy || len(got.Waiting) > 0 || !got.Serves() {
				t.Errorf("note %+v, busy %v, waiting %v, serves %v", got.Note, got.Busy, got.Waiting, got.Serves())
			}
			choice := sidecarcontrol.Choose([]sidecarcontrol.Standing{got, outdated(c.Read(injected(t, set), set, now))}, sidecarcontrol.Rollout{MaxUnavailable: 1})
			if len(choice.Upgrade) != 1 {
				t.Errorf("another Pod waits: %v", choice.Limits)
			}
		})
	}
	t.Run("more sets than a Pod can have", func(t *testing.T) {
		pod := injected(t, set)
		pod.Annotations[injectedKey] += strings.Repeat(",x", 99)
		if names := c.Injected(pod); len(names) != 2 {
			t.Errorf("of 100 names, %d are read", len(names))
		}
		pod.Annotations[injectedKey] += ",x"
		if names := c.Injected(pod); names != nil || c.Read(pod, set, now).Injected {
			t.Errorf("of 101 names, %d are read", len(names))
		}
	})
}

func outdated(s sidecarcontrol.Standing) sidecarcontrol.Standing {
	s.Updated = false
	return s
}

// hotState renders a step of a hot upgrade: image and versions of both twins, and the working twin.
func hotState(pod *corev1.Pod) string {
	var parts []string
	for _, name := range []string{"mesh-1", "mesh-2"} {
		parts = append(parts, podstate.Container(pod, name).Image+" "+pod.Annotations[versionKey+name]+"/"+pod.Annotations[altKey+name])
	}
	var w map[string]string
	if json.Unmarshal([]byte(pod.Annotations[workingKey]), &w) != nil {
		return "unreadable"
	}
	return strings.Join(append(parts, w["mesh"]), ", ")
}

// TestHotUpgrade makes several whole hot upgrades.
func TestHotUpgrade(t *testing.T) {
	version := func(image, resourceVersion string) *sidecarcontrol.Set {
		s := sidecarcontrol.Spec{Name: "one", Version: resourceVersion, Containers: []sidecarcontrol.Sidecar{side("mesh", hot)}}
		s.Containers[0].Image = image
		return newSet(t, s)
	}
	type step struct {
		set     *sidecarcontrol.Set // nil if the step is Flip, which ends a hot upgrade
		unready []string
		want    string
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"HU-10 two upgrades", []step{
			{set: version("v2", "205"), want: "v1 1/205, v2 205/1, mesh-2"},
			{want: "empty:v1 0/205, v2 205/0, mesh-2"},
			{set: version("v3", "377"), want: "v3 377/205, v2 205/377, mesh-1"},
			{want: "v3 377/0, empty:v1 0/377, mesh-1"},
		}},
		{"HU-11 a bad image, then a good one", []step{
			{set: version("bad", "205"), unready: []string{"mesh-2"}, want: "v1 1/205, bad 205/1, mesh-2"},
			{set: version("v3", "300"), want: "v1 1/300, v3 300/1, mesh-2"},
			{want: "empty:v1 0/300, v3 300/0, mesh-2"},
		}},
		{"HU-12 a bad image, then back", []step{
			{set: version("bad", "205"), unready: []string{"mesh-2"}, want: "v1 1/205, bad 205/1, mesh-2"},
			{set: version("v1", "300"), want: "v1 1/0, empty:v1 0/1, mesh-1"},
		}},
		{"HU-6 the image runs already", []step{{set: version("v1", "300"), want: "v1 1/0, empty:v1 0/1, mesh-1"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, pod, set := newControl(t), injected(t, version("v1", "100")), version("v1", "100")
			for i, step := range tc.steps {
				if step.set != nil {
					set = step.set
				}
				standing := c.Read(pod, set, now)
				var change podpatch.Change
				var err error
				if step.set != nil {
					change, err = c.Upgrade(&standing, set, now)
				} else if !standing.Flip || standing.Ready {
					t.Fatalf("step %d: no flip in %+v", i, standing)
				} else {
					change, err = c.Flip(&standing, set, now)
				}
				if err != nil {
					t.Fatal(err)
				}
				pod = send(t, pod, change)
				if got := hotState(pod); got != step.want {
					t.Fatalf("step %d: %s, want %s", i, got, step.want)
				}
				if s := c.Read(pod, set, now); s.Flip {
					t.Errorf("HU-9 step %d: flips before its node has started anything", i)
				}
				node(pod, step.unready...)
			}
			if s := c.Read(pod, set, now); !s.Updated || !s.Serves() || s.Flip {
				t.Errorf("in the end: %+v", s)
			}
		})
	}
}

// TestIdleNotReady: a Pod whose idle container is not ready is out of service for all of its sets. At the end of
// every hot upgrade, a container restarts with the empty image and is not ready for a moment.
func TestIdleNotReady(t *testing.T) {
	c := newControl(t)
	mesh := newSet(t, sidecarcontrol.Spec{Name: "mesh", Version: "1", Containers: []sidecarcontrol.Sidecar{side("mesh", hot)}})
	logs := newSet(t, spec("logs", "log"))
	next := spec("logs", "log")
	next.Containers[0].Image = "log:v2"
	wanted := newSet(t, next)
	pods := []*corev1.Pod{injected(t, mesh, logs), injected(t, mesh, logs)}
	node(pods[0], "mesh-2") // the idle twin
	var standings []sidecarcontrol.Standing
	for i, pod := range pods {
		pod.Name = fmt.Sprint("web-", i)
		standings = append(standings, c.Read(pod, wanted, now))
	}
	if len(standings[0].Failing) != 1 || len(standings[1].Failing) != 0 {
		t.Fatalf("failing: %v and %v", standings[0].Failing, standings[1].Failing)
	}
	pods[1].Labels["wave"] = "a"
	choice := sidecarcontrol.Choose(standings, sidecarcontrol.Rollout{MaxUnavailable: 1, Selector: labels.SelectorFromSet(labels.Set{"wave": "a"})})
	if len(choice.Upgrade) > 0 {
		t.Errorf("%s is taken out of service beside one that is", choice.Upgrade[0].Pod.Name)
	}
}

// TestHotUpgradeUnseen: a second upgrade, begun before the node has acted on the first upgrade, does not change the
// image of the container that still works.
func TestHotUpgradeUnseen(t *testing.T) {
	version := func(image, resourceVersion string) *sidecarcontrol.Set {
		s := sidecarcontrol.Spec{Name: "one", Version: resourceVersion, Containers: []sidecarcontrol.Sidecar{side("mesh", hot)}}
		s.Containers[0].Image = image
		return newSet(t, s)
	}
	for image, want := range map[string]string{
		"v3": "v1 1/300, v3 300/1, mesh-2",
		"v1": "v1 1/0, empty:v1 0/1, mesh-1",
	} {
		c, pod := newControl(t), injected(t, version("v1", "100"))
		for _, set := range []*sidecarcontrol.Set{version("v2", "205"), version(image, "300")} {
			standing := c.Read(pod, set, now)
			change, err := c.Upgrade(&standing, set, now)
			if err != nil {
				t.Fatal(err)
			}
			pod = send(t, pod, change)
		}
		if got := hotState(pod); got != want {
			t.Errorf("from v1 over v2 to %s: %s, want %s", image, got, want)
		}
	}
}

// TestHotUpgradeReverted: if an image change is reverted before the node acts, the changed container does not count
// as working.
func TestHotUpgradeReverted(t *testing.T) {
	version := func(mesh, proxy, resourceVersion string) *sidecarcontrol.Set {
		s := sidecarcontrol.Spec{Name: "one", Version: resourceVersion, Containers: []sidecarcontrol.Sidecar{side("proxy"), side("mesh", hot)}}
		s.Containers[0].Image, s.Containers[1].Image = proxy, mesh
		return newSet(t, s)
	}
	c, pod := newControl(t), injected(t, version("v1", "proxy:v1", "100"))
	upgrade := func(set *sidecarcontrol.Set) {
		t.Helper()
		standing := c.Read(pod, set, now)
		change, err := c.Upgrade(&standing, set, now)
		if err != nil {
			t.Fatal(err)
		}
		pod = send(t, pod, change)
	}
	next := version("v2", "proxy:v1", "200")
	upgrade(next)
	node(pod) // one twin runs v1 and the other v2
	standing := c.Read(pod, next, now)
	change, err := c.Flip(&standing, next, now)
	if err != nil {
		t.Fatal(err)
	}
	pod = send(t, pod, change) // from here on the node does not act
	for _, set := range []*sidecarcontrol.Set{version("v3", "proxy:v1", "300"), version("v1", "proxy:v1", "400"), version("v1", "proxy:v2", "500")} {
		upgrade(set)
		if got := images(pod)["mesh-2"]; got != "v2" {
			t.Fatalf("the container that serves gets %s, with %v", got, images(pod))
		}
	}
	if got := images(pod); got["mesh-1"] != "v1" || got["proxy"] != "proxy:v2" {
		t.Errorf("images %v", got)
	}
}

// TestFlipWaits: a hot upgrade is finished only when all other containers are ready.
func TestFlipWaits(t *testing.T) {
	for _, tc := range []struct {
		name    string
		unready []string
		want    bool
	}{
		{"HU-9 all ready", nil, true},
		{"HU-9 the new one is not", []string{"mesh-2"}, false},
		{"HU-9 the old one is not", []string{"mesh-1"}, true},
		{"HU-9 the Pod's own container is not", []string{"app"}, false},
		{"HU-17 another sidecar of the set is not", []string{"cold"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			version := func(image string) *sidecarcontrol.Set {
				s := spec("one", "cold")
				s.Containers = append(s.Containers, side("mesh", hot))
				s.Containers[1].Image = image
				return newSet(t, s)
			}
			c, pod, set := newControl(t), injected(t, version("v1")), version("v2")
			standing := c.Read(pod, set, now)
			change, err := c.Upgrade(&standing, set, now)
			if err != nil {
				t.Fatal(err)
			}
			pod = send(t, pod, change)
			node(pod, tc.unready...)
			if got := c.Read(pod, set, now); got.Flip != tc.want {
				t.Errorf("flip %v, want %v: %v", got.Flip, tc.want, got.Waiting)
			}
		})
	}
}

func TestTell(t *testing.T) {
	upgradable, blocked := newSet(t, spec("one", "a")), spec("one", "a")
	blocked.Containers[0].Env = []corev1.EnvVar{{Name: "A"}}
	condition := func(status corev1.ConditionStatus, reason, message string) *corev1.PodCondition {
		return &corev1.PodCondition{Type: conditionKey, Status: status, Reason: reason, Message: message}
	}
	for _, tc := range []struct {
		name string
		set  *sidecarcontrol.Set
		was  *corev1.PodCondition
		want *corev1.PodCondition
	}{
		{"SU-17 nothing to tell", upgradable, nil, nil},
		{"SU-17 not upgradable", newSet(t, blocked), nil, condition("False", "UpdateImmutableField", `{"one":false}`)},
		{"SU-17 told already", newSet(t, blocked), condition("False", "UpdateImmutableField", `{"one":false}`), nil},
		{"SU-17 upgradable again", upgradable, condition("False", "UpdateImmutableField", `{"one":false}`), condition("True", "AllSidecarsetUpgradable", `{"one":true}`)},
		{"SU-17 beside another", upgradable, condition("False", "UpdateImmutableField", `{"one":false,"two":false}`), condition("False", "UpdateImmutableField", `{"one":true,"two":false}`)},
		{"SU-17 nothing to tell beside another", upgradable, condition("True", "AllSidecarsetUpgradable", `{"two":true}`), nil},
		{"SU-17 no JSON", newSet(t, blocked), condition("True", "x", `{`), condition("False", "UpdateImmutableField", `{"one":false}`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, pod := newControl(t), injected(t, upgradable)
			if tc.was != nil {
				pod.Status.Conditions = append(pod.Status.Conditions, *tc.was)
			}
			standing := c.Read(pod, tc.set, now)
			change := c.Tell(&standing, tc.set)
			var got *corev1.PodCondition
			if len(change.Conditions) > 0 {
				got = &change.Conditions[0]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestChoose: each letter is a Pod: r ready, u not ready, R updated and ready, U updated and not ready, x not
// upgradable, B busy with another set's upgrade, w during an earlier upgrade of the same set. want lists the indexes
// of the Pods to upgrade.
func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name, pods string
		rollout    sidecarcontrol.Rollout
		want       []int
		limits     string
	}{
		{"SU-12 the budget", "rrr", sidecarcontrol.Rollout{MaxUnavailable: 1}, []int{0}, "UpdateLimited 2 Pods wait"},
		{"SU-12 a broken one uses it up", "Urr", sidecarcontrol.Rollout{MaxUnavailable: 1}, nil, "UpdateLimited 2 Pods wait"},
		{"SU-12 those that do not serve are free", "uur", sidecarcontrol.Rollout{MaxUnavailable: 0}, []int{0, 1}, "UpdateLimited 1 Pods wait"},
		{"SU-12 and count from then on", "ur", sidecarcontrol.Rollout{MaxUnavailable: 1}, []int{0}, "UpdateLimited 1 Pods wait"},
		{"SU-12 all", "rrR", sidecarcontrol.Rollout{MaxUnavailable: 3}, []int{0, 1}, ""},
		{"SU-11 partition of the upgradable", "rrrrrrrrxx", sidecarcontrol.Rollout{MaxUnavailable: 10, Partition: 3}, []int{0, 1, 2, 3, 4}, "PartitionReached 3 Pods wait"},
		{"SU-11 partition above all", "rr", sidecarcontrol.Rollout{MaxUnavailable: 10, Partition: 3}, nil, "PartitionReached 2 Pods wait"},
		{"SU-7 selected ones", "rr", sidecarcontrol.Rollout{MaxUnavailable: 10, Selector: labels.SelectorFromSet(labels.Set{"number": "1"})}, []int{1}, ""},
		{"SU-7 nothing to do", "RRx", sidecarcontrol.Rollout{MaxUnavailable: 10}, nil, ""},
		{"a Pod that another set upgrades is out of service", "Brr", sidecarcontrol.Rollout{MaxUnavailable: 1}, []int{0}, "UpdateLimited 2 Pods wait"},
		{"one whose earlier upgrade goes on", "wr", sidecarcontrol.Rollout{MaxUnavailable: 1}, []int{0}, "UpdateLimited 1 Pods wait"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods := make([]sidecarcontrol.Standing, len(tc.pods))
			for i, kind := range tc.pods {
				pod := newPod()
				pod.Labels["number"], pod.Spec.NodeName = fmt.Sprint(i), "node"
				s := sidecarcontrol.Standing{Pod: pod, Injected: true, Ready: !strings.ContainsRune("uU", kind), Updated: strings.ContainsRune("RU", kind), Busy: kind == 'B'}
				switch kind {
				case 'x':
					s.Blocked = append(s.Blocked, failed())
				case 'w':
					s.Waiting = append(s.Waiting, failed())
				}
				pods[i] = s
			}
			choice := sidecarcontrol.Choose(pods, tc.rollout)
			var got []int
			for _, s := range choice.Upgrade {
				for i := range pods {
					if &pods[i] == s {
						got = append(got, i)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var limits []string
			for _, l := range choice.Limits {
				limits = append(limits, string(l.Code)+" "+l.Detail)
			}
			if strings.Join(limits, ", ") != tc.limits {
				t.Errorf("limits %q, want %q", limits, tc.limits)
			}
		})
	}
}

func TestUpgradeOfAnEndedContainer(t *testing.T) {
	c := newControl(t)
	pod := injected(t, newSet(t, spec("one", "a")))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0}}
	s := spec("one", "a")
	s.Containers[0].Image = "a:v2"
	set := newSet(t, s)
	standing := c.Read(pod, set, now)
	if _, err := c.Upgrade(&standing, set, now); !errors.Is(err, errEnded()) {
		t.Errorf("error %v", err)
	}
}

// TestEndedContainers: no upgrade waits for a container that has ended for good, and the container's Pod cannot be
// upgraded.
func TestEndedContainers(t *testing.T) {
	type answer struct {
		Blocked, Failing bool
		Limits           string // the limits for another Pod, in service and outdated
	}
	const held = "UpdateLimited"
	for _, tc := range []struct {
		name      string
		policy    corev1.RestartPolicy
		container string
		code      int32
		updated   bool
		want      answer
	}{
		{"the sidecar, for good", "Never", "a", 0, false, answer{Blocked: true}},
		{"the sidecar, well", "OnFailure", "a", 0, false, answer{Blocked: true}},
		{"the sidecar is started again", "OnFailure", "a", 1, false, answer{Failing: true, Limits: held}},
		{"the sidecar is always started again", "Always", "a", 0, false, answer{Failing: true, Limits: held}},
		{"the application of a Job, with the newest sidecar", "Never", "app", 0, true, answer{}},
		{"the application is started again, with the newest sidecar", "Always", "app", 0, true, answer{Limits: held}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, old := newControl(t), newSet(t, spec("one", "a"))
			s := spec("one", "a")
			s.Containers[0].Image = "a:v2"
			set := newSet(t, s)
			pod, other := injected(t, old), injected(t, old)
			if tc.updated {
				pod = injected(t, set)
			}
			pod.UID, other.UID = "pod", "other"
			pod.Spec.RestartPolicy = tc.policy
			node(pod, tc.container)
			podstate.ContainerStatus(pod, tc.container).State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.code}}
			standings := []sidecarcontrol.Standing{c.Read(pod, set, now), c.Read(other, set, now)}
			got := answer{Blocked: errors.Is(standings[0].Blocked.Err(), errEnded()), Failing: len(standings[0].Failing) > 0}
			choice := sidecarcontrol.Choose(standings, sidecarcontrol.Rollout{MaxUnavailable: 1})
			for _, limit := range choice.Limits {
				got.Limits = string(limit.Code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotRead: Upgrade and Flip need a Standing that was read with the given set.
func TestNotRead(t *testing.T) {
	c, set := newControl(t), newSet(t, spec("one", "a"))
	s := spec("one", "a")
	s.Containers[0].Image = "a:v2"
	newer, other := newSet(t, s), newSet(t, spec("other", "app"))
	read := func(pod *corev1.Pod, set *sidecarcontrol.Set) *sidecarcontrol.Standing {
		standing := c.Read(pod, set, now)
		return &standing
	}
	for name, tc := range map[string]struct {
		standing *sidecarcontrol.Standing
		set      *sidecarcontrol.Set
	}{
		"nil":                    {nil, newer},
		"zero":                   {&sidecarcontrol.Standing{}, newer},
		"no set":                 {read(injected(t, set), newer), nil},
		"another set":            {read(injected(t, set), newer), other},
		"another version":        {read(injected(t, set), set), newer},
		"a Pod without sidecars": {read(newPod("app"), newer), newer},
	} {
		if _, err := c.Upgrade(tc.standing, tc.set, now); !errors.Is(err, sidecarcontrol.NotRead) {
			t.Errorf("%s: upgrade: %v", name, err)
		}
		if _, err := c.Flip(tc.standing, tc.set, now); !errors.Is(err, sidecarcontrol.NotRead) {
			t.Errorf("%s: flip: %v", name, err)
		}
	}
}

// TestTellUpgraded: after the end of an upgrade, Tell writes once that the sidecars can be upgraded.
func TestTellUpgraded(t *testing.T) {
	version := func(image string) *sidecarcontrol.Set {
		s := spec("one", "a")
		s.Containers[0].Image = image
		return newSet(t, s)
	}
	c, pod := newControl(t), injected(t, version("v1"))
	told, first := 0, corev1.PodCondition{}
	for _, step := range []struct {
		image string
		done  bool // whether the Node runs the images in the Pod's spec
		want  bool
	}{{"v1", true, false}, {"v2", false, false}, {"v2", true, true}, {"v2", true, false}, {"v3", false, false}, {"v3", true, false}, {"v2", true, false}} {
		set := version(step.image)
		standing := c.Read(pod, set, now)
		if !standing.Updated {
			change, err := c.Upgrade(&standing, set, now)
			if err != nil {
				t.Fatal(err)
			}
			pod = send(t, pod, change)
		}
		if step.done {
			node(pod)
		}
		standing = c.Read(pod, set, now)
		change := c.Tell(&standing, set)
		if got := len(change.Conditions) > 0; got != step.want {
			t.Errorf("SU-17 %+v: told %t, waiting for %v", step, got, standing.Waiting)
		}
		if !change.IsEmpty() {
			told++
			first = change.Conditions[0]
			pod.Status.Conditions = append(pod.Status.Conditions, first)
		}
	}
	if told != 1 || first.Status != "True" || first.Message != `{"one":true}` {
		t.Errorf("SU-17 told %d times, at first %+v", told, first)
	}
}
