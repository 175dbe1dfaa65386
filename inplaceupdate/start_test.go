package inplaceupdate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

// TestStartWritesTheWireFormat compares the written annotations with those of OpenKruise 1.9, which have the same
// keys in the same order.
func TestStartWritesTheWireFormat(t *testing.T) {
	setup := []func(*template){
		priority(0, 10), priority(1, 0), env(1, fromLabel("ZONE", "zone")), requests(1, "cpu", "100m"), limits(1, "cpu", "1"),
	}
	from := newTemplate(setup...)
	to := newTemplate(append(setup, image("app", "app:v2"), image("log", "log:v2"), label("zone", "b"), limits(1, "cpu", "500m"), annotation("cfg", "2"))...)
	to.Labels["app"] = "api"
	delete(to.Annotations, "note")
	const known = `,"knownImages":{"app":[{"image":"app:v1","imageID":"sha256:app:v1","containerID":"containerd://app/app:v1"}],` +
		`"log":[{"image":"log:v1","imageID":"sha256:log:v1","containerID":"containerd://log/log:v1"}]}}`
	updater := newUpdater()
	for _, tc := range []struct {
		name  string
		grace int32
		state string
		hold  string
	}{
		{
			name: "U-13 U-18 first of two batches",
			state: `{"revision":"web-2","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":{"app":{"imageID":"sha256:app:v1"}},` +
				`"updateResources":true,"updateImages":true,"nextContainerImages":{"log":"log:v2"},"nextContainerRefMetadata":{"log":{"labels":{"zone":"b"}}},` +
				`"nextContainerResources":{"log":{"limits":{"cpu":"500m"}}},"preCheckBeforeNext":{"containersRequiredReady":["app"]},"envByImage":["log"],` +
				`"containerBatchesRecord":[{"timestamp":"2026-07-01T10:00:00Z","containers":["app"]}]` + known,
		},
		{
			name: "U-14 with a grace period", grace: 30,
			state: `{"revision":"web-2","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":null,"updateResources":true,"updateImages":true,"envByImage":["log"]` + known,
			hold: `{"revision":"web-2","containerImages":{"app":"app:v2","log":"log:v2"},"containerRefMetadata":{"log":{"labels":{"zone":"b"}}},` +
				`"containerResources":{"log":{"limits":{"cpu":"500m"}}},` +
				// {"metadata":{"labels":{"app":"api"},"annotations":{"cfg":"2","note":null}}}
				`"metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsiYXBwIjoiYXBpIn0sImFubm90YXRpb25zIjp7ImNmZyI6IjIiLCJub3RlIjpudWxsfX19","graceSeconds":30}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := mustStart(t, updater, newPod(from), from, to, toward("web-2", tc.grace), now)
			if diff := cmp.Diff(tc.state, *change.Annotations[stateKey]); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			want := podpatch.Change{
				UID: "u1", ForceConditions: true, Annotations: change.Annotations,
				Conditions: []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: "StartInPlaceUpdate"}},
			}
			if tc.hold != "" {
				if diff := cmp.Diff(tc.hold, *change.Annotations[graceKey]); diff != "" {
					t.Errorf("grace (-want +got):\n%s", diff)
				}
			} else {
				want.Images, want.Labels = map[string]string{"app": "app:v2"}, map[string]*string{"app": new("api")}
			}
			if diff := cmp.Diff(want, change); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
			if _, now := change.Annotations["note"]; now == (tc.hold != "") {
				t.Errorf("U-14: plain annotations are written at once: %v", now)
			}
		})
	}
}

func TestStartClosesTheGate(t *testing.T) {
	base := newTemplate(env(0, fromLabel("ZONE", "zone")))
	edited := func(edits ...func(*template)) *template {
		out := base.DeepCopy()
		for _, edit := range edits {
			edit(out)
		}
		return out
	}
	restart := policy("cpu", corev1.RestartContainer)
	for _, tc := range []struct {
		name     string
		from, to *template
		noGate   bool
		want     bool
	}{
		{"U-8 image", base, edited(image("app", "app:v2")), false, true},
		{"U-10 no gate in the Pod", base, edited(image("app", "app:v2")), true, false},
		{"U-3 metadata alone", base, edited(label("x", "1")), false, false},
		{"U-7 env from metadata", base, edited(label("zone", "b")), false, true},
		{"U-10 resize alone", base, edited(limits(0, "cpu", "2")), false, false},
		{"U-10 resize that restarts", edited(restart), edited(restart, limits(0, "cpu", "2")), false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(tc.from)
			if tc.noGate {
				pod.Spec.ReadinessGates = nil
			}
			change := mustStart(t, newUpdater(), pod, tc.from, tc.to, toward("2", 0), now)
			if got := len(change.Conditions) == 1 && change.Conditions[0].Status == corev1.ConditionFalse && change.ForceConditions; got != tc.want {
				t.Errorf("closes the gate = %v: %+v", got, change.Conditions)
			}
		})
	}
}

// slowState has a quantity that takes half a minute to parse. Everybody with the right to annotate Pods can write
// such a state annotation.
const slowState = `{"revision":"2","nextContainerResources":{"app":{"limits":{"cpu":"1e-200000000"}}}}`

func TestStartRefuses(t *testing.T) {
	updater, base := newUpdater(), newTemplate()
	blocked := updater.Plan(base, newTemplate(func(t *template) { t.Spec.HostNetwork = true }))
	_, err := updater.Start(newPod(base), blocked, toward("2", 0), now)
	if !errors.Is(err, inplaceupdate.UpdateBlocked) || !strings.Contains(err.Error(), "spec.hostNetwork") {
		t.Errorf("Start of a blocked plan = %v", err)
	}
	for _, text := range []string{"", "{", "7", `{"lastContainerStatuses":[]}`, slowState} {
		for _, key := range []string{stateKey, oldState, graceKey, oldGrace} {
			pod := newPod(base)
			pod.Annotations[key] = text
			_, err := updater.Next(pod, now)
			if key == stateKey || key == oldState {
				_, startErr := updater.Start(pod, updater.Plan(base, base), toward("2", 0), now)
				if !errors.Is(startErr, inplaceupdate.UnreadableState) {
					t.Errorf("U-27 Start with %s %q = %v", key, text, startErr)
				}
			} else if text == `{"lastContainerStatuses":[]}` || text == slowState {
				continue // not a key of the grace annotation
			}
			why := reason.From(err)
			if !errors.Is(err, inplaceupdate.UnreadableState) || why[0].Path != "metadata.annotations["+key+"]" || why[0].Object.UID != "u1" {
				t.Errorf("U-27 Next with %s %q = %v", key, text, err)
			}
		}
	}
	pod := newPod(base)
	pod.Annotations[stateKey] = stateHead + "null}"
	for _, text := range []string{
		"{", `{"revision":"2","metaDataPatch":"!"}`, `{"revision":"2","metaDataPatch":"ew=="}`,
		`{"revision":"2","containerResources":{"app":{"limits":{"cpu":"1e-200000000"}}}}`, // slow to parse
	} {
		pod.Annotations[graceKey] = text
		if _, err := updater.Next(pod, now); !errors.Is(err, inplaceupdate.UnreadableState) {
			t.Errorf("U-27 Next with a grace annotation %s = %v", text, err)
		}
		if _, err := updater.Start(pod, updater.Plan(base, base), toward("2", 0), now); !errors.Is(err, inplaceupdate.UnreadableState) {
			t.Errorf("U-27 Start with a grace annotation %s = %v", text, err)
		}
	}
	pod = newPod(base)
	pod.Annotations[graceKey] = `{"revision":"2"}`
	if _, err := updater.Next(pod, now); !errors.Is(err, inplaceupdate.UnreadableState) {
		t.Errorf("U-16 grace without state = %v", err)
	}
}

// TestReadsWhatOthersWrote decodes annotations written by OpenKruise 1.9.
func TestReadsWhatOthersWrote(t *testing.T) {
	state := `{"revision":"web-7d9f8c6b5d","updateTimestamp":"2026-07-01T10:00:00Z",` +
		`"lastContainerStatuses":{"app":{"imageID":"docker.io/library/app@sha256:1111"}},"updateImages":true,` +
		`"nextContainerImages":{"log":"log:v2"},"nextContainerRefMetadata":{"log":{"creationTimestamp":null,"labels":{"zone":"b"}}},` +
		`"nextContainerResources":{"log":{"limits":{"cpu":"500m"}}},"preCheckBeforeNext":{"containersRequiredReady":["app"]},` +
		`"containerBatchesRecord":[{"timestamp":"2026-07-01T10:00:00Z","containers":["app"]}]}`
	grace := `{"revision":"web-7d9f8c6b5d","containerImages":{"app":"app:v2"},` +
		`"containerRefMetadata":{"app":{"creationTimestamp":null,"annotations":{"cfg":"2"}}},` +
		`"containerResources":{"app":{"limits":{"cpu":"2"},"requests":{"cpu":"1"}}},"metaDataPatch":"eyJtZXRhZGF0YSI6e319",` +
		`"updateEnvFromMetadata":true,"graceSeconds":30,"oldTemplate":{"spec":{"containers":null}},"newTemplate":{"metadata":{"creationTimestamp":null}}}`
	base := newTemplate(limits(1, "cpu", "1"))
	for _, keys := range [][2]string{{stateKey, graceKey}, {oldState, oldGrace}} {
		t.Run("1.2 next batch from "+keys[0], func(t *testing.T) {
			pod := newPod(base)
			pod.Annotations[keys[0]] = state
			step := mustNext(t, newUpdater(), pod, after(time.Minute))
			pod = write(t, pod, step.Change)
			got := fmt.Sprint(images(pod), " ", pod.Labels["zone"], " ", pod.Spec.Containers[1].Resources.Limits.Cpu())
			if want := "setup:v1 proxy:v1 app:v1 log:v2 b 500m"; got != want {
				t.Errorf("after the next batch: %s, want %s", got, want)
			}
			if _, kept := pod.Annotations[oldState]; kept || pod.Annotations[stateKey] == "" {
				t.Errorf("annotations after a write: %v", slices.Collect(maps.Keys(pod.Annotations)))
			}
			after, err := newUpdater().Saved(pod)
			if err != nil {
				t.Fatal(err)
			}
			want := []inplaceupdate.SavedBatch{{Timestamp: metav1.NewTime(now), Containers: []string{"app"}}, {Timestamp: metav1.NewTime(now.Add(time.Minute)), Containers: []string{"log"}}}
			if diff := cmp.Diff(want, after.ContainerBatchesRecord); diff != "" {
				t.Errorf("U-20 record (-want +got):\n%s", diff)
			}
		})
		t.Run("1.2 end of grace from "+keys[1], func(t *testing.T) {
			pod := newPod(base)
			pod.Annotations[keys[0]] = `{"revision":"web-7d9f8c6b5d","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":null}`
			pod.Annotations[keys[1]] = grace
			updater := newUpdater()
			if !updater.InGracePeriod(pod) {
				t.Error("U-16: not in grace period")
			}
			pod = write(t, pod, mustNext(t, updater, pod, after(31*time.Second)).Change)
			limits, requests := pod.Spec.Containers[0].Resources.Limits, pod.Spec.Containers[0].Resources.Requests
			got := fmt.Sprint(pod.Spec.Containers[0].Image, " ", pod.Annotations["cfg"], " ", limits.Cpu(), " ", requests.Cpu(), " ", updater.InGracePeriod(pod))
			if want := "app:v2 2 2 1 false"; got != want {
				t.Errorf("after the grace period: %s, want %s", got, want)
			}
			if state, err := updater.Saved(pod); err != nil || !state.UpdateEnvFromMetadata {
				t.Errorf("state %+v, %v; want updateEnvFromMetadata taken over", state, err)
			}
		})
	}
}

// TestStateIsWrittenAsItWasRead decodes and encodes states that OpenKruise 1.9 has left on Pods, after and during an
// update.
func TestStateIsWrittenAsItWasRead(t *testing.T) {
	for name, text := range map[string]string{
		"1.2 one image": `{"revision":"db-74bc5d9d99","updateTimestamp":"2026-11-21T09:11:15Z",` +
			`"lastContainerStatuses":{"main":{"imageID":"sim@sha256:1e2cf1b149975cdb51225e9797b8bb415d3e34add34e13499680944cbeb32a35"}},` +
			`"updateImages":true,"containerBatchesRecord":[{"timestamp":"2026-11-21T09:11:15Z","containers":["main"]}]}`,
		"1.2 metadata alone": `{"revision":"7d9f8c6b5d","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":null}`,
		"1.2 everything": `{"revision":"web-7d9f8c6b5d","updateTimestamp":"2026-07-01T10:00:00Z",` +
			`"lastContainerStatuses":{"app":{"imageID":"docker.io/library/app@sha256:1111"}},"updateEnvFromMetadata":true,"updateResources":true,` +
			`"updateImages":true,"nextContainerImages":{"log":"log:v2"},"nextContainerRefMetadata":{"log":{"labels":{"zone":"b"}}},` +
			`"nextContainerResources":{"log":{"limits":{"cpu":"500m"}}},"preCheckBeforeNext":{"containersRequiredReady":["app"]},` +
			`"containerBatchesRecord":[{"timestamp":"2026-07-01T10:00:00Z","containers":["app"]}]}`,
	} {
		for _, key := range []string{stateKey, oldState} {
			pod := newPod(newTemplate())
			pod.Annotations[key] = text
			state, err := newUpdater().Saved(pod)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(state)
			if diff := cmp.Diff(text, string(raw)); diff != "" || err != nil {
				t.Errorf("%s in %s (-read +written), %v:\n%s", name, key, err, diff)
			}
		}
	}
	pod := newPod(newTemplate())
	pod.Annotations[oldState], pod.Annotations[stateKey] = `{"revision":"old"}`, `{"revision":"new"}`
	if state, err := newUpdater().Saved(pod); err != nil || state.Revision != "new" {
		t.Errorf("with both names: %+v, %v; want the new one", state, err)
	}
	if state, err := newUpdater().Saved(newPod(newTemplate())); err != nil || state != nil {
		t.Errorf("U-24 without the annotation: %+v, %v", state, err)
	}
}
