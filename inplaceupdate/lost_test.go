package inplaceupdate_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
)

// lostCases are updates from template v1 to v2, during which another client changes the annotations with the update's
// state.
func lostCases() map[string]struct {
	to    []func(*template)
	grace int32
	lose  func(annotations map[string]string)
} {
	type lostCase = struct {
		to    []func(*template)
		grace int32
		lose  func(annotations map[string]string)
	}
	all := func(a map[string]string) { clear(a) }
	state := func(a map[string]string) { delete(a, stateKey) }
	app2, log2 := image("app", "app:v2"), image("log", "log:v2")
	return map[string]lostCase{
		"all, in the grace period":                       {[]func(*template){app2}, 30, all},
		"the state, in the grace period":                 {[]func(*template){app2}, 30, state},
		"the held change":                                {[]func(*template){app2}, 30, func(a map[string]string) { delete(a, graceKey) }},
		"all, while the node restarts":                   {[]func(*template){app2}, 0, all},
		"all, between two batches":                       {[]func(*template){app2, log2}, 0, all},
		"all, of images and resources":                   {[]func(*template){app2, limits(1, "cpu", "500m")}, 0, all},
		"all, of metadata that the template brings":      {[]func(*template){app2, annotation("cfg", "2")}, 0, all},
		"another state, of another revision":             {[]func(*template){app2}, 30, func(a map[string]string) { a[stateKey] = `{"revision":"web-0"}`; delete(a, graceKey) }},
		"an empty state":                                 {[]func(*template){app2}, 0, func(a map[string]string) { a[stateKey] = "{}" }},
		"the held change of another revision is refused": {[]func(*template){app2}, 30, func(a map[string]string) { a[graceKey] = `{"revision":"web-0"}` }},
	}
}

// TestLostState: whatever happens to the annotations of a Pod during an update, the completed Pod has all values of
// the template, and its containers run with these values.
func TestLostState(t *testing.T) {
	order := []func(*template){priority(0, 10), priority(1, 0), limits(1, "cpu", "200m"), annotation("cfg", "1")}
	from := newTemplate(order...)
	for name, tc := range lostCases() {
		t.Run(name, func(t *testing.T) {
			updater, to := newUpdater(), newTemplate(append(order, tc.to...)...)
			pod := write(t, newPod(from), mustStart(t, updater, newPod(from), from, to, toward("web-2", tc.grace), now))
			tc.lose(pod.Annotations)
			if updater.InGracePeriod(pod) && pod.Annotations[stateKey] != "" { // the grace annotation belongs to another update
				pod = write(t, pod, mustNext(t, updater, pod, now).Change)
			}
			if err := updater.Lost(pod, "web-2", false); !errors.Is(err, inplaceupdate.StateLost) || !strings.Contains(err.Error(), stateKey) {
				t.Fatalf("Lost = %v, annotations %v", err, pod.Annotations)
			}
			pod.Status.ObservedGeneration = pod.Generation // a node reports this before it restarts containers
			change, err := updater.Redo(pod, to, toward("web-2", tc.grace), now)
			if err != nil {
				t.Fatal(err)
			}
			pod = write(t, pod, change)
			pod.Status.ObservedGeneration = pod.Generation
			if step := mustNext(t, updater, pod, now); step.Complete || len(step.Waiting) == 0 || len(step.Change.Images) > 0 {
				t.Fatalf("goes on before its node has done anything: %+v, %v", step, pod.Annotations)
			}
			if err := updater.Lost(pod, "web-2", true); err != nil {
				t.Errorf("lost again: %v", err)
			}
			finished(t, updater, pod, to)
		})
	}
}

// finished follows a Pod to the end of its update and compares the Pod with the template.
func finished(t *testing.T, updater *inplaceupdate.Updater, pod *corev1.Pod, to *template) {
	t.Helper()
	for at := now; !mustNext(t, updater, pod, at).Complete; at = at.Add(time.Minute) {
		if at.After(after(time.Hour)) {
			t.Fatalf("waits for %v", mustNext(t, updater, pod, at).Waiting)
		}
		pod = write(t, pod, mustNext(t, updater, pod, at).Change)
		catchUp(pod)
	}
	pod = write(t, pod, mustNext(t, updater, pod, after(time.Hour)).Change)
	want := newPod(to)
	for i := range want.Spec.Containers {
		got, want := &pod.Spec.Containers[i], &want.Spec.Containers[i]
		if got.Image != want.Image || !cmp.Equal(got.Resources, want.Resources) {
			t.Errorf("container %s has %s, %v, want %s, %v", got.Name, got.Image, got.Resources, want.Image, want.Resources)
		}
	}
	for key, value := range to.Annotations {
		if pod.Annotations[key] != value {
			t.Errorf("annotation %s = %q, want %q", key, pod.Annotations[key], value)
		}
	}
}

// TestNotLost: Lost returns nil for Pods whose annotations are intact, and for Pods that were never updated.
func TestNotLost(t *testing.T) {
	from, to := newTemplate(), newTemplate(image("app", "app:v2"))
	updater := newUpdater()
	started := func(grace int32) *corev1.Pod {
		return write(t, newPod(from), mustStart(t, updater, newPod(from), from, to, toward("web-2", grace), now))
	}
	relabelled := newTemplate(image("app", "app:v2"), label("x", "1"))
	overtaken := write(t, started(0), mustStart(t, updater, started(0), to, relabelled, toward("web-3", 0), now))
	ran := started(0)
	catchUp(ran)
	overtakenLater := write(t, ran, mustStart(t, updater, ran, to, relabelled, toward("web-3", 0), now))
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		revision string
		updating bool
	}{
		{"never updated", newPod(from), "web-1", false},
		{"started", started(0), "web-2", true},
		{"started, the label has the hash alone", started(0), "2", true},
		{"in its grace period", started(30), "web-2", true},
		{"overtaken by a change of labels", overtaken, "web-3", false},
		{"overtaken by a change of labels when its image ran", overtakenLater, "web-3", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := updater.Lost(tc.pod, tc.revision, tc.updating); err != nil {
				t.Errorf("Lost = %v, annotations %v", err, tc.pod.Annotations)
			}
		})
	}
	pod := started(30)
	pod.Annotations[stateKey] = "{"
	if err := updater.Lost(pod, "web-2", true); !errors.Is(err, inplaceupdate.UnreadableState) {
		t.Errorf("Lost = %v, want UnreadableState", err)
	}
}

// TestRedoOfAResize: Redo of a resize leaves the Pod in service, and waits until the node has granted the resources.
func TestRedoOfAResize(t *testing.T) {
	updater, from := newUpdater(), newTemplate(limits(1, "cpu", "200m"))
	to := newTemplate(limits(1, "cpu", "500m"))
	for _, sent := range []bool{false, true} {
		pod := newPod(from)
		before := pod.Status.ContainerStatuses
		pod = write(t, pod, mustStart(t, updater, pod, from, to, toward("web-2", 0), now))
		if pod.Status.ContainerStatuses = before; !sent {
			pod.Spec.Containers = newPod(from).Spec.Containers
		}
		maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return key == stateKey })
		if err := updater.Lost(pod, "web-2", true); !errors.Is(err, inplaceupdate.StateLost) {
			t.Fatalf("Lost = %v", err)
		}
		change, err := updater.Redo(pod, to, toward("web-2", 0), now)
		if err != nil || len(change.Images) > 0 || len(change.Conditions) > 0 {
			t.Fatalf("Redo = %+v, %v", change, err)
		}
		pod = write(t, pod, change)
		if step := mustNext(t, updater, pod, now); step.Complete || !strings.Contains(step.Waiting.String(), string(inplaceupdate.ResizeNotDone)) {
			t.Errorf("sent %t: complete %t, waiting %v", sent, step.Complete, step.Waiting)
		}
		finished(t, updater, pod, to)
	}
}

// TestRedoOfEnv: a Pod may have the new label while its container still runs with the old value in env.
func TestRedoOfEnv(t *testing.T) {
	updater := newUpdater()
	common := []func(*template){env(0, fromLabel("ZONE", "zone"), fromAnnotation("CFG", "cfg")), annotation("cfg", "1"), annotation("plain", "1")}
	from, to := newTemplate(append(common, label("zone", "a"))...), newTemplate(append(common, label("zone", "b"))...)
	pod := newPod(from)
	report(t, pod)
	pod = write(t, pod, mustStart(t, updater, pod, from, to, toward("web-2", 0), now))
	delete(pod.Annotations, stateKey)
	change, err := updater.Redo(pod, to, toward("web-2", 0), now)
	if err != nil {
		t.Fatal(err)
	}
	if pod = write(t, pod, change); pod.Annotations["cfg"] != "1" || pod.Annotations["plain"] != "1" {
		t.Errorf("annotations of the template are missing: %v", pod.Annotations)
	}
	if step := mustNext(t, updater, pod, after(time.Hour)); step.Complete || !strings.Contains(step.Waiting.String(), string(inplaceupdate.EnvNotReported)) {
		t.Errorf("complete %t, waiting %v", step.Complete, step.Waiting)
	}
	pod.Status.ContainerStatuses[0].ContainerID = "c://restarted"
	report(t, pod)
	if step := mustNext(t, updater, pod, after(time.Hour)); !step.Complete {
		t.Errorf("waiting %v", step.Waiting)
	}
}

// TestRedoIsBlocked: an impossible Redo returns its reasons and writes nothing.
func TestRedoIsBlocked(t *testing.T) {
	more := newTemplate()
	more.Spec.Containers = append(more.Spec.Containers, corev1.Container{Name: "third", Image: "third:v1"})
	for _, tc := range []struct {
		name string
		to   *template
		want []string
	}{
		{"no template", nil, []string{"UpdateBlocked", "RevisionMissing"}},
		{"an empty template", &template{}, []string{"UpdateBlocked", "RevisionMissing"}},
		{"a container more", more, []string{"UpdateBlocked", "ContainersChanged", "spec.containers[third]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change, err := newUpdater().Redo(newPod(newTemplate()), tc.to, toward("2", 0), now)
			if err == nil || !change.IsEmpty() {
				t.Fatalf("Redo = %+v, %v", change, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %s", err, want)
				}
			}
		})
	}
}
