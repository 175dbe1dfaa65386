package inplaceupdate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	stateKey = "example.com/update-state"
	graceKey = "example.com/update-grace"
	metaKey  = "example.com/runtime"
	oldState = "update-state"
	oldGrace = "update-grace"

	gate corev1.PodConditionType = "example.com/Updated"
)

var now = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return now.Add(d) }

// mustNew returns an Updater of a configuration. The configuration may lack its keys.
func mustNew(config inplaceupdate.Config) *inplaceupdate.Updater {
	if config.Keys.StateAnnotation == "" {
		config.Keys.StateAnnotation, config.Keys.GraceAnnotation = stateKey, graceKey
	}
	u, err := inplaceupdate.New(config)
	if err != nil {
		panic(err)
	}
	return u
}

func withoutPriority(c *inplaceupdate.Config) { c.Priority = nil }

// toward is the target of an operator that keeps the revision outside of labels.
func toward(revision string, graceSeconds int32) inplaceupdate.Target {
	return inplaceupdate.Target{Revision: revision, Labels: map[string]string{}, GracePeriod: time.Duration(graceSeconds) * time.Second}
}

// newUpdater delivers everything. A container's priority is its env PRIORITY.
func newUpdater(edits ...func(*inplaceupdate.Config)) *inplaceupdate.Updater {
	config := inplaceupdate.Config{
		Keys: inplaceupdate.Keys{
			StateAnnotation: stateKey, GraceAnnotation: graceKey, LegacyStateAnnotation: oldState, LegacyGraceAnnotation: oldGrace,
			RuntimeMetaAnnotation: metaKey, Gate: gate,
		},
		AllowResize: true, EnvFromMetadata: true,
		Priority: func(c *corev1.Container) (int, bool) {
			for _, e := range c.Env {
				if e.Name == "PRIORITY" {
					n, err := strconv.Atoi(e.Value)
					return n, err == nil
				}
			}
			return 0, false
		},
	}
	for _, edit := range edits {
		edit(&config)
	}
	return mustNew(config)
}

func priority(container, n int) func(*template) {
	return env(container, corev1.EnvVar{Name: "PRIORITY", Value: strconv.Itoa(n)})
}

// newPod runs on a node and serves.
func newPod(t *template) *corev1.Pod {
	t = t.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion, pod.Generation = "default", "web-0", "u1", "1", 1
	pod.Spec.NodeName = "n1"
	defaultRequests(&pod.Spec)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	for _, c := range []corev1.PodConditionType{gate, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
	}
	catchUp(pod)
	return pod
}

// defaultRequests gives requests to containers with limits alone, as the API server does when a Pod is created.
func defaultRequests(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if r := &list[i].Resources; len(r.Limits) > 0 {
				*r = defaulted(*r)
			}
		}
	}
}

// status returns a node's report about a container running its spec.
func status(c *corev1.Container) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "sha256:" + c.Image, ContainerID: "containerd://" + c.Name + "/" + c.Image,
		Ready: true, Resources: &corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits},
	}
}

// catchUp lets the node run the Pod's spec.
func catchUp(pod *corev1.Pod) {
	pod.Status.ObservedGeneration = pod.Generation
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(&pod.Spec.InitContainers[i]))
	}
	if ready, known := podpatch.Ready(pod, nil); known {
		*podstate.Condition(pod, corev1.PodReady) = ready
	}
}

// send carries a change out as an API server does.
func send(pod *corev1.Pod, changes ...podpatch.Change) (*corev1.Pod, error) {
	patches, err := podpatch.Merge(pod, now, changes...)
	if err != nil {
		return nil, err
	}
	for _, p := range patches.Requests {
		old, err := json.Marshal(pod)
		if err != nil {
			return nil, err
		}
		merged, err := strategicpatch.StrategicMergePatch(old, p.Body, &corev1.Pod{})
		if err != nil {
			return nil, err
		}
		next := &corev1.Pod{}
		if err := json.Unmarshal(merged, next); err != nil {
			return nil, err
		}
		if p.Subresource == "resize" {
			next.ObjectMeta = *pod.ObjectMeta.DeepCopy()
		}
		if !equality.Semantic.DeepEqual(pod.Spec, next.Spec) {
			next.Generation++
		}
		next.ResourceVersion += "1"
		pod = next
	}
	return pod, nil
}

func write(t testing.TB, pod *corev1.Pod, changes ...podpatch.Change) *corev1.Pod {
	t.Helper()
	pod, err := send(pod, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func mustStart(t testing.TB, c *inplaceupdate.Updater, pod *corev1.Pod, from, to *template, target inplaceupdate.Target, at time.Time) podpatch.Change {
	t.Helper()
	before := pod.DeepCopy()
	change, err := c.Start(pod, c.Plan(from, to), target, at)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, pod) {
		t.Errorf("Start modified the Pod:\n%s", cmp.Diff(before, pod))
	}
	return change
}

func mustNext(t testing.TB, c *inplaceupdate.Updater, pod *corev1.Pod, at time.Time) inplaceupdate.Step {
	t.Helper()
	before := pod.DeepCopy()
	step, err := c.Next(pod, at)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, pod) {
		t.Errorf("Next modified the Pod:\n%s", cmp.Diff(before, pod))
	}
	return step
}

func codes(list reason.List) []string {
	var out []string
	for _, why := range list {
		out = append(out, string(why.Code))
	}
	return out
}

// images returns the images of the containers, native sidecars included.
func images(pod *corev1.Pod) string {
	var out []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out = append(out, list[i].Image)
		}
	}
	return strings.Join(out, " ")
}

// Example takes a Pod through a whole update with a grace period.
func Example() {
	updater, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "example.com/update-state", GraceAnnotation: "example.com/update-grace", Gate: gate,
		Reserved: []string{"example.com/revision"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	old, wanted := newTemplate(), newTemplate(image("app", "app:v2"))
	pod := newPod(old)

	target := inplaceupdate.Target{
		Revision: "web-2", Labels: map[string]string{"example.com/revision": "web-2"}, GracePeriod: 30 * time.Second,
	}
	change, err := updater.Start(pod, updater.Plan(old, wanted), target, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	pod, _ = send(pod, change)
	for _, at := range []time.Duration{10 * time.Second, 31 * time.Second, 32 * time.Second, 40 * time.Second} {
		step, err := updater.Next(pod, now.Add(at))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(at, "ready:", podstate.IsTrue(pod, corev1.PodReady), "image:", pod.Spec.Containers[0].Image, "complete:", step.Complete)
		for _, why := range step.Waiting {
			fmt.Println("  ", why.Code, why.Detail)
		}
		pod, _ = send(pod, step.Change)
		if at > 31*time.Second {
			catchUp(pod) // the node restarts the container, and later sees the open gate
		}
	}
	fmt.Println("ready:", podstate.IsTrue(pod, corev1.PodReady))
	// Output:
	// 10s ready: false image: app:v1 complete: false
	//    GracePeriodRunning ends 2026-07-01T10:00:31Z
	// 31s ready: false image: app:v1 complete: false
	// 32s ready: false image: app:v2 complete: false
	//    NotObserved node n1 has not seen the newest spec
	//    ImageNotRunning container app still runs app:v1 (sha256:app:v1), not app:v2
	// 40s ready: false image: app:v2 complete: true
	// ready: true
}

// TestStartWritesTheWireFormat compares with the annotations of OpenKruise 1.9, key by key and in the same order.
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

// slowState has a quantity that takes half a minute to read. Everybody with the right to annotate a Pod can write such
// a state.
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
		`{"revision":"2","containerResources":{"app":{"limits":{"cpu":"1e-200000000"}}}}`, // reading the quantity would take half a minute
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

// TestReadsWhatOthersWrote takes over the JSON of OpenKruise 1.9 unchanged.
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

// TestStateIsWrittenAsItWasRead takes states left on Pods by OpenKruise 1.9, settled and midway.
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

func TestGracePeriod(t *testing.T) {
	from := newTemplate()
	to := newTemplate(image("app", "app:v2"), label("x", "1"), func(t *template) { t.Finalizers = []string{"f/2"}; delete(t.Annotations, "note") })
	updater := newUpdater()
	started := func() *corev1.Pod {
		pod := newPod(from)
		return write(t, pod, mustStart(t, updater, pod, from, to, toward("2", 30), now))
	}
	for _, tc := range []struct {
		name  string
		at    time.Duration
		again time.Duration // 0: the change comes now
	}{
		{"U-14 starts", 0, 31 * time.Second},
		{"U-14 runs", 1500 * time.Millisecond, 29500 * time.Millisecond},
		{"U-14 the annotation has whole seconds, and the Pod may have left service at the end of one", 30*time.Second + 999*time.Millisecond, time.Millisecond},
		{"U-14 a clock that is behind", -time.Second, 32 * time.Second},
		{"U-14 over", 31 * time.Second, 0},
		{"U-14 long over", time.Hour, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := started()
			if images(pod) != images(newPod(from)) || podstate.IsTrue(pod, corev1.PodReady) {
				t.Fatalf("not waiting out of service: %s", images(pod))
			}
			step := mustNext(t, updater, pod, after(tc.at))
			if step.RequeueAfter != tc.again || step.Complete {
				t.Errorf("RequeueAfter = %v, complete %v; want %v", step.RequeueAfter, step.Complete, tc.again)
			}
			if tc.again > 0 {
				if diff := cmp.Diff([]string{"GracePeriodRunning"}, codes(step.Waiting)); diff != "" || !step.Change.IsEmpty() {
					t.Errorf("waiting (-want +got):\n%s%+v", diff, step.Change)
				}
				return
			}
			if step.Change.ResourceVersion != pod.ResourceVersion {
				t.Error("the change is not bound to the Pod it was decided on")
			}
			pod = write(t, pod, step.Change)
			_, note := pod.Annotations["note"]
			if pod.Spec.Containers[0].Image != "app:v2" || pod.Labels["x"] != "1" || note || updater.InGracePeriod(pod) || pod.Finalizers[0] != "f/2" {
				t.Errorf("after the grace period: %s %+v", images(pod), pod.ObjectMeta)
			}
		})
	}
	since := func(status corev1.ConditionStatus, at time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			ready := podstate.Condition(pod, corev1.PodReady)
			ready.Status, ready.LastTransitionTime = status, metav1.NewTime(after(at))
		}
	}
	for _, tc := range []struct {
		name  string
		ready func(*corev1.Pod)
		at    time.Duration
		want  string // "": the change comes now
		again time.Duration
	}{
		{"a node reports the Pod as ready before it sees the gate", since(corev1.ConditionTrue, 0), time.Hour, "starts when the node reports the Pod as not ready", 0},
		{"U-14 counts from when the node saw the gate", since(corev1.ConditionFalse, 10*time.Second), 31 * time.Second, "ends 2026-07-01T10:00:41Z", 10 * time.Second},
		{"... until its end", since(corev1.ConditionFalse, 10*time.Second), 41 * time.Second, "", 0},
		{"the Pod was out of service before", since(corev1.ConditionFalse, -time.Hour), 31 * time.Second, "", 0},
		{"a node's clock that is far ahead tells nothing", since(corev1.ConditionFalse, 2*time.Hour), 31 * time.Second, "", 0},
		{"the Pod's gate is not asked for", func(pod *corev1.Pod) { since(corev1.ConditionTrue, 0)(pod); pod.Spec.ReadinessGates = nil }, 31 * time.Second, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := started()
			tc.ready(pod)
			step, said := mustNext(t, updater, pod, after(tc.at)), ""
			for _, why := range step.Waiting {
				said += why.Detail
			}
			if said != tc.want || step.RequeueAfter != tc.again || step.Change.IsEmpty() != (tc.want != "") {
				t.Errorf("Next says %q after %v: %+v; want %q after %v", said, step.RequeueAfter, step.Change, tc.want, tc.again)
			}
		})
	}
	t.Run("U-15 another revision meanwhile", func(t *testing.T) {
		pod := started()
		pod.Annotations[stateKey] = strings.Replace(pod.Annotations[stateKey], `"revision":"2"`, `"revision":"3"`, 1)
		step := mustNext(t, updater, pod, after(time.Hour))
		want := podpatch.Change{UID: "u1", ResourceVersion: pod.ResourceVersion, Annotations: map[string]*string{graceKey: nil}}
		if diff := cmp.Diff(inplaceupdate.Step{Change: want}, step); diff != "" {
			t.Errorf("Next (-want +got):\n%s", diff)
		}
	})
	t.Run("U-14 metadata alone needs no grace period", func(t *testing.T) {
		change := mustStart(t, updater, newPod(from), from, newTemplate(label("x", "1")), toward("2", 30), now)
		if _, waits := change.Annotations[graceKey]; waits || change.Labels["x"] == nil {
			t.Errorf("change %+v", change)
		}
	})
}

// batches runs an update to its end on an always ready node and returns the containers of each batch.
func batches(t testing.TB, updater *inplaceupdate.Updater, pod *corev1.Pod, from, to *template) (*corev1.Pod, []string) {
	t.Helper()
	pod = write(t, pod, mustStart(t, updater, pod, from, to, toward("2", 0), now))
	for range 20 {
		catchUp(pod)
		report(t, pod)
		step := mustNext(t, updater, pod, now)
		pod = write(t, pod, step.Change)
		if !step.Complete {
			continue
		}
		state, err := updater.Saved(pod)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, b := range state.ContainerBatchesRecord {
			out = append(out, strings.Join(b.Containers, " "))
		}
		return pod, out
	}
	t.Fatalf("the update does not end: %s", pod.Annotations[stateKey])
	return nil, nil
}

func TestBatches(t *testing.T) {
	three := func(edits ...func(*template)) func(...func(*template)) *template {
		return func(more ...func(*template)) *template {
			t := newTemplate()
			t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "mesh", Image: "mesh:v1"})
			for _, edit := range append(edits, more...) {
				edit(t)
			}
			return t
		}
	}
	v2 := []func(*template){image("app", "app:v2"), image("log", "log:v2"), image("mesh", "mesh:v2")}
	zones := []func(*template){env(0, fromLabel("A", "a")), env(1, fromLabel("A", "a"), fromAnnotation("B", "b")), env(2, fromAnnotation("B", "b"))}
	ranked := []func(*template){priority(0, 10), priority(1, 5), priority(2, 0)}
	for _, tc := range []struct {
		name string
		base func(...func(*template)) *template
		to   []func(*template)
		want []string
	}{
		{"U-18 no priorities", three(), v2, []string{"app log mesh"}},
		{"U-18 two priorities", three(priority(0, 10), priority(1, 0)), v2[:2], []string{"app", "log"}},
		{"U-18 three priorities", three(ranked...), v2, []string{"app", "log", "mesh"}},
		{"U-18 without priority goes with the highest", three(priority(0, -1), priority(1, 5)), v2, []string{"log mesh", "app"}},
		{"U-18 highest among the changed ones", three(ranked...), v2[1:], []string{"log", "mesh"}},
		{"U-18 negative priorities", three(priority(0, -5), priority(1, -1)), v2[:2], []string{"log", "app"}},
		{"U-18 equal priorities", three(priority(0, 3), priority(1, 3)), v2[:2], []string{"app log"}},
		{"U-19 a shared label pulls in", three(append(ranked, zones...)...), []func(*template){label("a", "1")}, []string{"app log"}},
		{"U-19 transitively", three(append(ranked, zones...)...), []func(*template){label("a", "1"), annotation("b", "1")}, []string{"app log mesh"}},
		{
			"U-19 transitively, against the order of names", three(append([]func(*template){priority(0, 0), priority(1, 5), priority(2, 10)}, zones...)...),
			[]func(*template){label("a", "1"), annotation("b", "1")},
			[]string{"app log mesh"},
		},
		{"U-19 no more than that", three(append(ranked, zones...)...), []func(*template){label("a", "1"), v2[2]}, []string{"app log", "mesh"}},
		{"U-19 keys of lower ones wait", three(append(ranked, zones...)...), []func(*template){v2[0], annotation("b", "1")}, []string{"app", "log mesh"}},
		{"U-21 [BUG] only resources pending", three(priority(0, 10), priority(1, 0), limits(1, "cpu", "1")), []func(*template){v2[0], limits(1, "cpu", "2")}, []string{"app", "log"}},
		{"metadata alone is no batch", three(ranked...), []func(*template){label("x", "1")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from, to := tc.base(), tc.base(tc.to...)
			pod, got := batches(t, newUpdater(), newPod(from), from, to)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
			checkDelivered(t, pod, to)
		})
	}
}

// checkDelivered compares a Pod with the template of its update.
func checkDelivered(t testing.TB, pod *corev1.Pod, to *template) {
	t.Helper()
	for _, key := range []string{stateKey, graceKey, metaKey} {
		delete(pod.Annotations, key)
	}
	want := newPod(to)
	slices.Sort(want.Finalizers)
	slices.Sort(pod.Finalizers)
	for what, pair := range map[string][2]any{
		"labels": {want.Labels, pod.Labels}, "annotations": {want.Annotations, pod.Annotations}, "finalizers": {want.Finalizers, pod.Finalizers},
		"containers": {want.Spec.Containers, pod.Spec.Containers}, "init containers": {want.Spec.InitContainers, pod.Spec.InitContainers},
	} {
		if !equality.Semantic.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s (-template +Pod):\n%s", what, cmp.Diff(pair[0], pair[1]))
		}
	}
	if catchUp(pod); !podstate.IsTrue(pod, gate) || !podstate.IsTrue(pod, corev1.PodReady) {
		t.Error("the gate is not open again")
	}
}

func TestNextBatchWaitsUntilReady(t *testing.T) {
	base := newTemplate(priority(0, 10), priority(1, 0))
	to := newTemplate(priority(0, 10), priority(1, 0), image("app", "app:v2"), image("log", "log:v2"))
	updater := newUpdater()
	pod := newPod(base)
	pod = write(t, pod, mustStart(t, updater, pod, base, to, toward("2", 0), now))
	step := mustNext(t, updater, pod, now)
	if diff := cmp.Diff([]string{"NotObserved", "ImageNotRunning"}, codes(step.Waiting)[:2]); diff != "" || !step.Change.IsEmpty() {
		t.Errorf("U-20 before the node acts (-want +got):\n%s%+v", diff, step.Change)
	}
	catchUp(pod)
	pod.Status.ContainerStatuses[0].Ready = false
	step = mustNext(t, updater, pod, now)
	if diff := cmp.Diff([]string{"BatchNotReady status.containerStatuses[app].ready"}, codesAndPaths(step.Waiting)); diff != "" || !step.Change.IsEmpty() || step.Complete {
		t.Errorf("U-20 app runs and is not ready (-want +got):\n%s%+v", diff, step.Change)
	}
	pod.Status.ContainerStatuses[0].Ready = true
	if step = mustNext(t, updater, pod, now); step.Change.Images["log"] != "log:v2" {
		t.Errorf("U-20 app is ready: %+v", step)
	}
}

func TestBatchThatNeverGetsReady(t *testing.T) {
	base := newTemplate(priority(0, 10), priority(1, 0))
	to := newTemplate(priority(0, 10), priority(1, 0), image("app", "app:broken"), image("log", "log:v2"))
	updater := newUpdater()
	pod := newPod(base)
	pod = write(t, pod, mustStart(t, updater, pod, base, to, toward("2", 0), now))
	for hours := range 5 {
		catchUp(pod)
		pod.Status.ContainerStatuses[0].Ready = false
		pod = write(t, pod, mustNext(t, updater, pod, after(time.Duration(hours)*time.Hour)).Change)
	}
	if got, want := images(pod), "setup:v1 proxy:v1 app:broken log:v1"; got != want {
		t.Errorf("U-20 images %s, want %s", got, want)
	}
	if podstate.IsTrue(pod, gate) {
		t.Error("U-20 the gate opens in the middle of an update")
	}
	// A way out: the repaired template overtakes, and the pending changes are still delivered.
	repaired := newTemplate(priority(0, 10), priority(1, 0), image("app", "app:v3"), image("log", "log:v2"))
	pod = write(t, pod, mustStart(t, updater, pod, to, repaired, toward("3", 0), now))
	for range 3 {
		catchUp(pod)
		pod = write(t, pod, mustNext(t, updater, pod, now).Change)
	}
	checkDelivered(t, pod, repaired)
}

// TestGateOfAnUnreportedPod: scheduler and kubelet write to a new Pod, and would collide with the write of a gate not
// yet needed. A gate closed by a start is opened all the same.
func TestGateOfAnUnreportedPod(t *testing.T) {
	for _, tc := range []struct {
		name   string
		closed bool
	}{{"U-26 a new Pod", false}, {"U-26 closed by a start", true}} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate())
			pod.Status.ContainerStatuses, pod.Status.Conditions = nil, nil
			if tc.closed {
				pod.Status.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse}}
			}
			step := mustNext(t, newUpdater(), pod, now)
			if !step.Complete || step.Change.IsEmpty() == tc.closed {
				t.Errorf("complete: %v, change: %+v", step.Complete, step.Change)
			}
		})
	}
}

func TestGateAtTheEnd(t *testing.T) {
	condition := func(status corev1.ConditionStatus, reason, message string) *corev1.PodCondition {
		return &corev1.PodCondition{Type: gate, Status: status, Reason: reason, Message: message}
	}
	for _, tc := range []struct {
		name string
		have *corev1.PodCondition
		gate bool
		want bool
	}{
		{"U-26 a new Pod", nil, true, true},
		{"U-26 closed by a start", condition("False", "StartInPlaceUpdate", ""), true, true},
		{"U-26 open already", condition("True", "", ""), true, false},
		{"U-26 True with a reason is written again", condition("True", "R", ""), true, true},
		{"U-26 True with a message is written again", condition("True", "", "m"), true, true},
		{"U-26 no gate", condition("False", "", ""), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(newTemplate())
			pod.Status.Conditions = pod.Status.Conditions[1:]
			if tc.have != nil {
				pod.Status.Conditions = append(pod.Status.Conditions, *tc.have)
			}
			if !tc.gate {
				pod.Spec.ReadinessGates = nil
			}
			want := inplaceupdate.Step{Complete: true}
			if tc.want {
				// Only for the exact Pod in the request.
				want.Change = podpatch.Change{UID: "u1", ResourceVersion: "1", Conditions: []corev1.PodCondition{*condition("True", "", "")}}
			}
			if diff := cmp.Diff(want, mustNext(t, newUpdater(), pod, now)); diff != "" {
				t.Errorf("U-24 Next without state (-want +got):\n%s", diff)
			}
		})
	}
}
