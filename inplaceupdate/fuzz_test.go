package inplaceupdate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podstate"
)

// world makes random templates whose containers differ mostly in deliverable fields, and simulates the node.
type world struct {
	*rand.Rand

	base *template
	// runs holds, by container, the node agent's entry at the container's start.
	runs map[string]agentEntry
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 3))}
	w.base = newTemplate()
	for _, name := range []string{"mesh", "agent"}[:w.IntN(3)] {
		w.base.Spec.Containers = append(w.base.Spec.Containers, corev1.Container{Name: name, Image: name + ":v1"})
	}
	for i := range w.base.Spec.Containers {
		if w.IntN(2) == 0 {
			priority(i, w.IntN(3))(w.base)
		}
		for _, key := range []string{"a", "b"} {
			if w.IntN(3) == 0 {
				env(i, fromLabel("L_"+key, key))(w.base)
			}
			if w.IntN(3) == 0 {
				env(i, fromAnnotation("A_"+key, key))(w.base)
			}
		}
		w.base.Spec.Containers[i].Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "1", "memory", "1Gi")}
	}
	if w.IntN(3) == 0 {
		sidecarEnv(fromLabel("L_a", "a"), fromAnnotation("A_b", "b"))(w.base)
	}
	return w
}

// template returns the base template with random values, and sometimes with a change that cannot be made in place.
func (w *world) template() *template {
	t := w.base.DeepCopy()
	for _, key := range []string{"a", "b", "c"} {
		for _, m := range []map[string]string{t.Labels, t.Annotations} {
			if n := w.IntN(4); n > 0 {
				m[key] = fmt.Sprint(n)
			}
		}
	}
	if w.IntN(4) == 0 {
		t.Finalizers = append(t.Finalizers, "f/2")
	}
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		c.Image = fmt.Sprintf("%s:v%d", c.Name, 1+w.IntN(3))
		c.Resources.Requests["cpu"] = resource.MustParse(fmt.Sprint(1 + w.IntN(3)))
	}
	t.Spec.InitContainers[1].Image = fmt.Sprint("proxy:v", 1+w.IntN(3))
	switch w.IntN(20) {
	case 0:
		t.Spec.InitContainers[0].Image = "setup:v2"
	case 1:
		env(0, corev1.EnvVar{Name: "NEW"})(t)
	}
	return t
}

// progress lets the simulated node take a single step: restart a container, resize a container or report the status.
func (w *world) progress(t testing.TB, pod *corev1.Pod) {
	fresh := pod.DeepCopy()
	catchUp(fresh)
	if w.runs == nil {
		w.runs = map[string]agentEntry{}
	}
	for i := range pod.Status.ContainerStatuses {
		if w.IntN(2) == 0 {
			pod.Status.ContainerStatuses[i] = fresh.Status.ContainerStatuses[i]
			pod.Status.ContainerStatuses[i].Ready = w.IntN(3) > 0
			w.runs[pod.Spec.Containers[i].Name] = observe(t, fresh, pod.Spec.Containers[i].Name)
		}
	}
	if w.IntN(2) == 0 {
		pod.Status.InitContainerStatuses, pod.Status.ObservedGeneration = fresh.Status.InitContainerStatuses, pod.Generation
		w.runs["proxy"] = observe(t, fresh, "proxy")
	}
	if w.IntN(2) == 0 {
		report(t, pod, func([]agentEntry) []agentEntry { return slices.Collect(maps.Values(w.runs)) })
	}
}

// TestWholeUpdates runs a fixed number of the fuzz target's cases with every test run.
func TestWholeUpdates(t *testing.T) {
	for seed := range uint64(150) {
		checkUpdate(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzWholeUpdates(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed << 32)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkUpdate(t, seed) })
}

// checkUpdate updates a Pod to several templates in turn, sometimes before the previous update is complete, and
// checks that the Pod arrives at the last template.
func checkUpdate(t *testing.T, seed uint64) {
	w := newWorld(seed)
	updater := newUpdater()
	at := now
	from := w.template()
	pod := newPod(from)
	for revision := range 1 + w.IntN(3) {
		to := w.template()
		plan := updater.Plan(from, to)
		if !plan.Possible() {
			if len(plan.Images)+len(plan.Labels) > 0 {
				t.Fatalf("a plan that is not possible delivers something: %+v", plan)
			}
			continue
		}
		change, err := updater.Start(pod, plan, toward(fmt.Sprint(revision), int32(w.IntN(2)*w.IntN(30))), at)
		if err != nil {
			t.Fatal(err)
		}
		if w.IntN(4) == 0 {
			change.Resources = nil // the resize request got lost
		}
		pod, from = write(t, pod, change), to
		for range w.IntN(4) {
			at = at.Add(time.Duration(w.IntN(20)) * time.Second)
			w.progress(t, pod)
			pod = write(t, pod, mustNext(t, updater, pod, at).Change)
		}
	}
	finish(t, w, updater, pod, from)
}

// finish drives a Pod to the end of its last update.
func finish(t *testing.T, w *world, updater *inplaceupdate.Updater, pod *corev1.Pod, to *template) {
	at := after(time.Hour)
	for range 60 {
		w.progress(t, pod)
		if step := mustNext(t, updater, pod, at); !step.Complete {
			pod = write(t, pod, step.Change)
			continue
		} else if pod = write(t, pod, step.Change); updater.InGracePeriod(pod) {
			t.Error("U-22 complete in its grace period")
		}
		for i := range pod.Spec.Containers {
			want := status(&pod.Spec.Containers[i])
			if got := pod.Status.ContainerStatuses[i]; got.Image != want.Image {
				t.Errorf("complete while %s runs %s, not %s", got.Name, got.Image, want.Image)
			}
		}
		w.checkEnv(t, updater, pod)
		checkState(t, updater, pod)
		checkDelivered(t, pod, to)
		if again := mustNext(t, updater, pod, at); !again.Complete || !again.Change.IsEmpty() {
			t.Errorf("complete, and then %+v", again)
		}
		return
	}
	t.Fatalf("the update does not end: %s\n%v", pod.Annotations[stateKey], mustNext(t, updater, pod, at).Waiting)
}

// checkEnv: after a complete update with changed env, every container runs with the present values.
func (w *world) checkEnv(t *testing.T, updater *inplaceupdate.Updater, pod *corev1.Pod) {
	state, err := updater.Saved(pod)
	if err != nil {
		t.Fatal(err)
	}
	if state == nil || !state.UpdateEnvFromMetadata {
		return
	}
	for name, runs := range w.runs {
		c := podstate.Container(pod, name)
		if want := observe(t, pod, name).Hashes.Env; runs.Hashes.Env != want && (name != "proxy" || slices.Contains(state.EnvSidecars, name)) {
			t.Errorf("complete while %s runs with old env: %+v", c.Name, pod.Annotations)
		}
	}
}

// checkState checks the batches in the state annotation: each container occurs at most once, and no changes are left
// for later batches.
func checkState(t *testing.T, updater *inplaceupdate.Updater, pod *corev1.Pod) {
	state, err := updater.Saved(pod)
	if err != nil {
		t.Fatal(err)
	}
	if state == nil {
		return
	}
	seen := map[string]bool{}
	for _, b := range state.ContainerBatchesRecord {
		for _, name := range b.Containers {
			if seen[name] {
				t.Errorf("container %s is in two batches: %+v", name, state.ContainerBatchesRecord)
			}
			seen[name] = true
		}
	}
	if strings.Contains(pod.Annotations[stateKey], `"next`) || strings.Contains(pod.Annotations[stateKey], "batchResources") {
		t.Errorf("complete with work left: %s", pod.Annotations[stateKey])
	}
}

// FuzzState reads arbitrary content of the annotations. The package refuses the content, or writes it back with
// unchanged meaning, and never panics.
func FuzzState(f *testing.F) {
	f.Add(`{"revision":"a","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":{"app":{"imageID":"x"}}}`, `{"revision":"a","graceSeconds":3}`)
	f.Add(`{"nextContainerResources":{"log":{"limits":{"cpu":"500m"}}},"supersededImages":{"app":["a",""]}}`, ``)
	f.Add(`null`, `{"metaDataPatch":"eyJtZXRhZGF0YSI6e319"}`)
	f.Fuzz(func(t *testing.T, state, grace string) {
		updater, base := newUpdater(), newTemplate()
		pod := newPod(base)
		pod.Annotations[stateKey] = state
		if grace != "" {
			pod.Annotations[graceKey] = grace
		}
		_, _ = updater.Next(pod, now)
		_, _ = updater.Start(pod, updater.Plan(base, newTemplate(image("app", "app:v2"))), toward("2", 0), now)
		read, err := updater.Saved(pod)
		if err != nil {
			return
		}
		raw, err := json.Marshal(read)
		if err != nil {
			return // the time cannot be encoded in JSON
		}
		pod.Annotations[stateKey] = string(raw)
		again, err := updater.Saved(pod)
		if err != nil {
			t.Fatalf("%s cannot be read: %v", raw, err)
		}
		written, err := json.Marshal(again)
		if diff := cmp.Diff(string(raw), string(written)); diff != "" || err != nil {
			t.Errorf("second reading (-first +second), %v:\n%s", err, diff)
		}
	})
}
