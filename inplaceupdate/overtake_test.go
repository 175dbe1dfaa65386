package inplaceupdate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
)

type (
	containerImages    = map[string]string
	containerRefs      = map[string]inplaceupdate.RefMetadata
	containerResources = map[string]corev1.ResourceRequirements
	containerRecords   = map[string]inplaceupdate.ContainerRecord
	superseded         = map[string][]string
)

// midway returns a Pod with the state annotation of an unfinished update and, if grace is not nil, a grace
// annotation.
func midway(t testing.TB, base *template, progress *inplaceupdate.Progress, grace *inplaceupdate.SavedGrace) *corev1.Pod {
	t.Helper()
	pod := newPod(base)
	put := func(key string, value any) {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations[key] = string(raw)
	}
	if progress != nil {
		put(stateKey, inplaceupdate.NewSavedState("2", now, *progress))
	}
	if grace != nil {
		put(graceKey, grace)
	}
	return pod
}

// startPlan starts a plan and returns the change without the package's annotations, and the content of both
// annotations.
func startPlan(
	t testing.TB, c *inplaceupdate.Updater, pod *corev1.Pod, plan *inplaceupdate.Plan, seconds int32,
) (change podpatch.Change, state inplaceupdate.SavedState, grace *inplaceupdate.SavedGrace) {
	t.Helper()
	raw, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	change, err = c.Start(pod, plan, toward("3", seconds), after(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(plan); err != nil || string(again) != string(raw) {
		t.Errorf("Start modified the plan, which Pods share: %s, was %s", again, raw)
	}
	if err := json.Unmarshal([]byte(*change.Annotations[stateKey]), &state); err != nil {
		t.Fatal(err)
	}
	if text := change.Annotations[graceKey]; text != nil {
		grace = &inplaceupdate.SavedGrace{}
		if err := json.Unmarshal([]byte(*text), grace); err != nil {
			t.Fatal(err)
		}
	}
	delete(change.Annotations, stateKey)
	delete(change.Annotations, graceKey)
	return change, state, grace
}

// keys returns a map of the given pairs of key and value; the value "-" stands for a removed key.
func keys(pairs ...string) map[string]*string {
	out := map[string]*string{}
	for i := 0; i < len(pairs); i += 2 {
		if out[pairs[i]] = &pairs[i+1]; pairs[i+1] == "-" {
			out[pairs[i]] = nil
		}
	}
	return out
}

func refLabels(pairs ...string) inplaceupdate.RefMetadata {
	return inplaceupdate.RefMetadata{Labels: flat(pairs...)}
}

func refAnnotations(pairs ...string) inplaceupdate.RefMetadata {
	return inplaceupdate.RefMetadata{Annotations: flat(pairs...)}
}

func flat(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func limited(pairs ...string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: quantities(pairs...)}
}

// undelivered is a Pod in the middle of an update to revision 2, a plan from revision 2 to 3, and the expected
// delivery.
type undelivered struct {
	name     string
	progress *inplaceupdate.Progress
	grace    *inplaceupdate.SavedGrace
	plan     inplaceupdate.Plan
	want     podpatch.Change // the expected change, without preconditions and gate
	batch    string
}

// TestStartDeliversWhatAnEarlierUpdateDidNot: the Pod's label names revision 2 as soon as the update to 2 starts. A
// plan from 2 to 3 therefore lacks the fields that are equal in both revisions, even if the update to 2 has not
// delivered these fields.
func TestStartDeliversWhatAnEarlierUpdateDidNot(t *testing.T) {
	for _, tc := range slices.Concat(pendingCases(), pendingMetadataCases(), pendingResourceCases(), heldCases()) {
		t.Run(tc.name, func(t *testing.T) {
			updater := newUpdater(withoutPriority)
			pod := midway(t, newTemplate(), tc.progress, tc.grace)
			change, state, _ := startPlan(t, updater, pod, &tc.plan, 0)
			got := podpatch.Change{
				Labels: change.Labels, Annotations: change.Annotations, Images: change.Images, Resources: change.Resources,
				AddFinalizers: change.AddFinalizers, RemoveFinalizers: change.RemoveFinalizers,
			}
			if tc.want.Annotations == nil {
				tc.want.Annotations = keys()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("delivered (-want +got):\n%s", diff)
			}
			var batches []string
			for _, b := range state.ContainerBatchesRecord {
				batches = append(batches, strings.Join(b.Containers, " "))
			}
			if diff := cmp.Diff(tc.batch, strings.Join(batches, ", ")); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want.Resources, state.BatchResources); diff != "" || state.UpdateResources != (len(tc.want.Resources) > 0) {
				t.Errorf("resources to await, updateResources %v (-want +got):\n%s", state.UpdateResources, diff)
			}
		})
	}
}

var app3 = inplaceupdate.Plan{Images: containerImages{"app": "app:v3"}}

func pendingCases() []undelivered {
	return []undelivered{
		{"U-28 no earlier update", nil, nil, app3, podpatch.Change{Images: app3.Images}, "app"},
		{"U-28 an earlier update that has delivered all", &inplaceupdate.Progress{UpdateImages: true}, nil, app3, podpatch.Change{Images: app3.Images}, "app"},
		{
			"U-18 a pending image", &inplaceupdate.Progress{NextContainerImages: flat("log", "log:v2")},
			nil, app3,
			podpatch.Change{Images: flat("app", "app:v3", "log", "log:v2")},
			"app log",
		},
		{
			"U-18 a pending image of which the plan knows a newer one", &inplaceupdate.Progress{NextContainerImages: flat("app", "app:v2", "log", "log:v2")},
			nil, app3,
			podpatch.Change{Images: flat("app", "app:v3", "log", "log:v2")},
			"app log",
		},
	}
}

func pendingMetadataCases() []undelivered {
	return []undelivered{
		{
			"U-18 pending metadata", &inplaceupdate.Progress{NextContainerRefMetadata: containerRefs{"log": {Labels: flat("zone", "b"), Annotations: flat("cfg", "2")}}},
			nil, app3,
			podpatch.Change{Images: app3.Images, Labels: keys("zone", "b"), Annotations: keys("cfg", "2")},
			"app log",
		},
		{
			"U-7 pending metadata that the plan sets plainly", &inplaceupdate.Progress{NextContainerRefMetadata: containerRefs{"log": refLabels("zone", "b", "team", "x")}},
			nil,
			inplaceupdate.Plan{Labels: keys("zone", "c")},
			podpatch.Change{Labels: keys("zone", "c", "team", "x")},
			"log",
		},
		{
			"U-7 pending metadata that the plan removes", &inplaceupdate.Progress{NextContainerRefMetadata: containerRefs{"log": refAnnotations("cfg", "2")}},
			nil,
			inplaceupdate.Plan{Annotations: keys("cfg", "-")},
			podpatch.Change{Annotations: keys("cfg", "-")},
			"",
		},
		{
			"U-7 pending metadata that the plan gives to another container",
			&inplaceupdate.Progress{NextContainerRefMetadata: containerRefs{"log": {Labels: flat("zone", "b"), Annotations: flat("cfg", "2")}}},
			nil,
			inplaceupdate.Plan{RefMetadata: containerRefs{"app": {Labels: flat("zone", "c"), Annotations: flat("cfg", "3")}}},
			podpatch.Change{Labels: keys("zone", "c"), Annotations: keys("cfg", "3")},
			"app",
		},
		{
			"U-7 pending metadata of a container for which the plan has more", &inplaceupdate.Progress{NextContainerRefMetadata: containerRefs{"log": {Labels: flat("zone", "b", "team", "x"), Annotations: flat("cfg", "2", "a", "1")}}},
			nil,
			inplaceupdate.Plan{RefMetadata: containerRefs{"log": {Labels: flat("zone", "c"), Annotations: flat("cfg", "3")}}},
			podpatch.Change{Labels: keys("zone", "c", "team", "x"), Annotations: keys("cfg", "3", "a", "1")},
			"log",
		},
		{
			"U-7 a pending annotation and a label of the same name", &inplaceupdate.Progress{NextContainerRefMetadata: containerRefs{"log": refAnnotations("zone", "b")}},
			nil,
			inplaceupdate.Plan{Labels: keys("zone", "c")},
			podpatch.Change{Labels: keys("zone", "c"), Annotations: keys("zone", "b")},
			"log",
		},
		{
			"U-7 a pending label and an annotation of the same name", &inplaceupdate.Progress{NextContainerRefMetadata: containerRefs{"log": refLabels("zone", "b")}},
			nil,
			inplaceupdate.Plan{RefMetadata: containerRefs{"app": refAnnotations("zone", "c")}},
			podpatch.Change{Labels: keys("zone", "b"), Annotations: keys("zone", "c")},
			"app log",
		},
	}
}

func pendingResourceCases() []undelivered {
	return []undelivered{
		{
			"U-21 [BUG] pending resources alone", &inplaceupdate.Progress{NextContainerResources: containerResources{"log": limited("cpu", "500m")}},
			nil, app3,
			podpatch.Change{Images: app3.Images, Resources: containerResources{"log": limited("cpu", "500m")}},
			"app log",
		},
		{
			"U-21 [BUG] pending resources, value by value", &inplaceupdate.Progress{NextContainerResources: containerResources{
				"app": {Limits: quantities("cpu", "2"), Requests: quantities("cpu", "500m", "memory", "1Gi")},
			}},
			nil,
			inplaceupdate.Plan{Resources: containerResources{"app": {Limits: quantities("cpu", "3"), Requests: quantities("memory", "2Gi")}, "log": limited("cpu", "1")}},
			podpatch.Change{Resources: containerResources{
				"app": {Limits: quantities("cpu", "3"), Requests: quantities("cpu", "500m", "memory", "2Gi")}, "log": limited("cpu", "1"),
			}},
			"app log",
		},
		{
			"U-12 a resize that was not sent", &inplaceupdate.Progress{BatchResources: containerResources{"app": limited("cpu", "2")}},
			nil, app3,
			podpatch.Change{Images: app3.Images, Resources: containerResources{"app": limited("cpu", "2")}},
			"app",
		},
		{
			"U-12 a resize that was not sent, of which the plan knows a newer value",
			&inplaceupdate.Progress{BatchResources: containerResources{"app": {Limits: quantities("cpu", "2"), Requests: quantities("cpu", "1")}}},
			nil,
			inplaceupdate.Plan{Resources: containerResources{"app": limited("cpu", "3")}},
			podpatch.Change{Resources: containerResources{"app": {Limits: quantities("cpu", "3"), Requests: quantities("cpu", "1")}}},
			"app",
		},
		{
			"U-12 a resize that has arrived", &inplaceupdate.Progress{BatchResources: containerResources{"app": limited("cpu", "1000m")}},
			nil, app3,
			podpatch.Change{Images: app3.Images},
			"app",
		},
	}
}

func heldCases() []undelivered {
	held := func(metadata string) *inplaceupdate.SavedGrace {
		return &inplaceupdate.SavedGrace{Revision: "2", GraceSeconds: 600, MetaDataPatch: []byte(metadata)}
	}
	full := held(`{"metadata":{"labels":{"x":"1","gone":null},"annotations":{"y":"1"},"finalizers":["f/2"],"$deleteFromPrimitiveList/finalizers":["f/1"]}}`)
	full.ContainerImages, full.ContainerResources = containerImages{"app": "app:v2", "log": "log:v2"}, containerResources{"app": limited("cpu", "2")}
	full.ContainerRefMetadata = containerRefs{"log": refLabels("zone", "b")}
	other := *full
	other.Revision = "1"
	return []undelivered{
		{
			"U-14 all that a grace period holds back", &inplaceupdate.Progress{}, full,
			inplaceupdate.Plan{Labels: keys("z", "1")},
			podpatch.Change{
				Labels: keys("x", "1", "gone", "-", "z", "1", "zone", "b"), Annotations: keys("y", "1"), AddFinalizers: []string{"f/2"}, RemoveFinalizers: []string{"f/1"},
				Images: full.ContainerImages, Resources: full.ContainerResources,
			},
			"app log",
		},
		{
			"U-14 what the plan says comes first", &inplaceupdate.Progress{}, full,
			inplaceupdate.Plan{
				Labels: keys("x", "-", "zone", "c"), Annotations: keys("y", "2"), AddFinalizers: []string{"f/1", "f/3"}, RemoveFinalizers: []string{"f/2"},
				Images: containerImages{"app": "app:v3"}, Resources: containerResources{"app": limited("cpu", "3")},
			},
			podpatch.Change{
				Labels: keys("x", "-", "gone", "-", "zone", "c"), Annotations: keys("y", "2"), AddFinalizers: []string{"f/1", "f/3"}, RemoveFinalizers: []string{"f/2"},
				Images: containerImages{"app": "app:v3", "log": "log:v2"}, Resources: containerResources{"app": limited("cpu", "3")},
			},
			"app log",
		},
		{
			"U-14 the plan agrees about finalizers", &inplaceupdate.Progress{}, full,
			inplaceupdate.Plan{AddFinalizers: []string{"f/2"}, RemoveFinalizers: []string{"f/1"}},
			podpatch.Change{
				Labels: keys("x", "1", "gone", "-", "zone", "b"), Annotations: keys("y", "1"), AddFinalizers: []string{"f/2"}, RemoveFinalizers: []string{"f/1"},
				Images: full.ContainerImages, Resources: full.ContainerResources,
			},
			"app log",
		},
		{
			"U-7 a label held back that a container reads by now", &inplaceupdate.Progress{}, held(`{"metadata":{"labels":{"zone":"b","x":"1"},"annotations":{"zone":"b"}}}`),
			inplaceupdate.Plan{RefMetadata: containerRefs{"app": refLabels("zone", "c")}},
			podpatch.Change{Labels: keys("zone", "c", "x", "1"), Annotations: keys("zone", "b")},
			"app",
		},
		{
			"U-7 an annotation held back that a container reads by now", &inplaceupdate.Progress{}, held(`{"metadata":{"labels":{"zone":"b"},"annotations":{"zone":"b","y":"1"}}}`),
			inplaceupdate.Plan{RefMetadata: containerRefs{"app": refAnnotations("zone", "c")}},
			podpatch.Change{Labels: keys("zone", "b"), Annotations: keys("zone", "c", "y", "1")},
			"app",
		},
		{
			"U-15 a grace annotation of another revision holds nothing", &inplaceupdate.Progress{}, &other,
			inplaceupdate.Plan{Labels: keys("z", "1")},
			podpatch.Change{Labels: keys("z", "1")},
			"",
		},
	}
}

// TestStartDropsTheGraceAnnotation: Start takes over the changes in the grace annotation, unless the changes belong
// to another revision. In both cases no later call may apply these changes, so Start removes the annotation. If the
// new update has a grace period, Start stores all changes in a new grace annotation.
func TestStartDropsTheGraceAnnotation(t *testing.T) {
	held := &inplaceupdate.SavedGrace{Revision: "2", ContainerImages: containerImages{"log": "log:v2"}, GraceSeconds: 600}
	plan := &inplaceupdate.Plan{Images: containerImages{"app": "app:v3"}}
	for _, tc := range []struct {
		name    string
		key     string
		seconds int32
		want    *inplaceupdate.SavedGrace
	}{
		{"U-14 the new update has none", graceKey, 0, nil},
		{"U-14 the new update has none, older name", oldGrace, 0, nil},
		{"U-14 the new update has one", graceKey, 30, &inplaceupdate.SavedGrace{
			Revision: "3", ContainerImages: containerImages{"app": "app:v3", "log": "log:v2"}, MetaDataPatch: []byte(`{"metadata":{}}`), GraceSeconds: 30,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := midway(t, newTemplate(), &inplaceupdate.Progress{}, held)
			text := pod.Annotations[graceKey]
			delete(pod.Annotations, graceKey)
			pod.Annotations[tc.key] = text
			updater := newUpdater(withoutPriority)
			_, _, grace := startPlan(t, updater, pod, plan, tc.seconds)
			if diff := cmp.Diff(tc.want, grace); diff != "" {
				t.Errorf("held back (-want +got):\n%s", diff)
			}
			change, err := updater.Start(pod, plan, toward("3", tc.seconds), now)
			if err != nil {
				t.Fatal(err)
			}
			if pod = write(t, pod, change); updater.InGracePeriod(pod) != (tc.want != nil) {
				t.Errorf("annotations %v", pod.Annotations)
			}
		})
	}
}

// TestStartInheritsWhatIsUnfinished: an update replaces an earlier, unfinished update. The new update also waits for
// containers that only the earlier update changed. A container changed by both updates does not count as updated
// while the container runs the earlier update's image.
func TestStartInheritsWhatIsUnfinished(t *testing.T) {
	for _, tc := range slices.Concat(inheritedImages(), inheritedWaits(t), inheritedDoubts()) {
		t.Run(tc.name, func(t *testing.T) {
			pod := midway(t, newTemplate(image("app", "app:v2"), env(1, fromLabel("ZONE", "zone"))), tc.progress, nil)
			tc.pod(pod)
			_, state, _ := startPlan(t, newUpdater(), pod, &tc.plan, 0)
			if diff := cmp.Diff(tc.want, state.Part()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// inherited is a Pod whose spec has image app:v2 in container app, the state written by the earlier update, a plan,
// and the expected state after a start.
type inherited struct {
	name     string
	pod      func(*corev1.Pod)
	progress *inplaceupdate.Progress
	plan     inplaceupdate.Plan
	want     inplaceupdate.Progress
}

// appRuns edits the node's report about app.
func appRuns(image, id string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].Image, pod.Status.ContainerStatuses[0].ImageID = image, id
	}
}

var labelled = inplaceupdate.Plan{Labels: keys("x", "1")}

func inheritedImages() []inherited {
	first := appRuns("app:v1", "sha256:1")
	all := func(edits ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, edit := range edits {
				edit(pod)
			}
		}
	}
	silent := func(name string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = slices.DeleteFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
		}
	}
	back := inplaceupdate.Plan{Images: containerImages{"app": "app:v1"}}
	progress := func(records containerRecords, images superseded) *inplaceupdate.Progress {
		return &inplaceupdate.Progress{LastContainerStatuses: records, UpdateImages: true, SupersededImages: images}
	}
	old := func(images superseded) *inplaceupdate.Progress {
		return progress(containerRecords{"app": {ImageID: "sha256:1"}}, images)
	}
	images := func(id string, images superseded) inplaceupdate.Progress {
		return *progress(containerRecords{"app": {ImageID: id}}, images)
	}
	done := images("sha256:2", nil) // so the digest of app:v2 is known
	done.KnownImages = map[string][]inplaceupdate.KnownImage{"app": {{Image: "app:v2", ImageID: "sha256:2", ContainerID: "containerd://app/app:v2"}}}
	perhaps := done // app:v0 may be another tag of app:v2, so nobody knows from which image the instance was started
	perhaps.KnownImages = map[string][]inplaceupdate.KnownImage{"app": {{Image: "app:v2", ImageID: "sha256:2"}}}
	return []inherited{
		{"U-24 no earlier update", first, nil, labelled, inplaceupdate.Progress{}},
		{"U-13 left alone, runs the old image", first, old(nil), labelled, images("sha256:1", nil)},
		{"U-13 left alone, and so are the images before", first, old(superseded{"app": {"app:v0"}, "log": {"log:v0"}}), labelled, images("sha256:1", superseded{"app": {"app:v0"}})},
		{"U-23 left alone, runs an image that was overtaken", appRuns("app:v0", "sha256:0"), old(superseded{"app": {"app:v0"}}), labelled, images("sha256:1", superseded{"app": {"app:v0"}})},
		{"U-23 left alone, not reported", silent("app"), old(nil), labelled, images("sha256:1", nil)},
		{"U-23 left alone, runs the new image", appRuns("app:v2", "sha256:2"), old(superseded{"app": {"app:v0"}}), labelled, inplaceupdate.Progress{}},
		{"U-28 changed again, the first still runs", first, old(nil), app3, images("sha256:1", superseded{"app": {"app:v2"}})},
		{"U-28 changed a third time", first, old(superseded{"app": {"app:v0"}}), app3, images("sha256:1", superseded{"app": {"app:v0", "app:v2"}})},
		{"U-28 changed again, an overtaken one runs", appRuns("app:v0", "sha256:0"), old(superseded{"app": {"app:v0"}}), app3, images("sha256:0", superseded{"app": {"app:v0", "app:v2"}})},
		{"U-28 each image once", first, old(superseded{"app": {"app:v2"}}), app3, images("sha256:1", superseded{"app": {"app:v2"}})},
		{"U-28 back to an image that was overtaken", first, old(superseded{"app": {"app:v1"}}), back, images("sha256:1", superseded{"app": {"app:v1", "app:v2"}})},
		{"U-28 changed after the earlier update was done", appRuns("app:v2", "sha256:2"), old(superseded{"app": {"app:v0"}}), app3, perhaps},
		{"U-28 an earlier update of another container", appRuns("app:v2", "sha256:2"), &inplaceupdate.Progress{LastContainerStatuses: containerRecords{"log": {ImageID: "sha256:log"}}}, app3, done},
		{"U-13 not reported yet", func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }, nil, app3, images("", superseded{"app": {"app:v2"}})},
		{"U-13 reported without an image ID", appRuns("app:v2", ""), nil, app3, images("", superseded{"app": {"app:v2"}})},
		{"U-13 two containers left alone", all(first, silent("log")), progress(containerRecords{"app": {ImageID: "sha256:1"}, "log": {ImageID: "sha256:log"}}, superseded{"app": {"app:v0"}, "log": {"log:v0"}}), labelled, *progress(containerRecords{"app": {ImageID: "sha256:1"}, "log": {ImageID: "sha256:log"}}, superseded{"app": {"app:v0"}, "log": {"log:v0"}})},
		{"U-28 two containers changed again", all(silent("app"), silent("log")), nil, inplaceupdate.Plan{Images: containerImages{"app": "app:v3", "log": "log:v3"}}, *progress(containerRecords{"app": {}, "log": {}}, superseded{"app": {"app:v2"}, "log": {"log:v1"}})},
	}
}

// inheritedDoubts are Pods for which the image of container app is uncertain now, or was uncertain earlier.
func inheritedDoubts() []inherited {
	one := containerRecords{"app": {ImageID: "sha256:1"}}
	behind := func(pod *corev1.Pod) {
		appRuns("app:v2", "sha256:2")(pod)
		pod.Generation++
	}
	leftAlone := func(pod *corev1.Pod) { // app:v1 is another name of app:v2, and the kubelet has not ended the instance
		appRuns("app:v1", "sha256:1")(pod)
		pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
	}
	seen := inplaceupdate.Progress{LastContainerStatuses: one, UpdateImages: true, Seen: map[string]inplaceupdate.Sighting{
		"app": {ContainerID: "containerd://app/app:v2", At: metav1.NewTime(now)},
	}}
	// The digest belongs to app:v2, but app:v0 could have the same digest.
	known := map[string][]inplaceupdate.KnownImage{"app": {{Image: "app:v2", ImageID: "app@sha256:2"}}}
	doubtful := inplaceupdate.Progress{LastContainerStatuses: one, UpdateImages: true, SupersededImages: superseded{"app": {"app:v0"}}, KnownImages: known, EnvByImage: []string{"app"}}
	again := inplaceupdate.Progress{
		LastContainerStatuses: containerRecords{"app": {ImageID: "sha256:2"}}, UpdateImages: true,
		SupersededImages: superseded{"app": {"app:v0", "app:v2"}}, KnownImages: known,
	}
	return []inherited{
		{
			"U-28 changed again, its node has not seen the spec", behind, &inplaceupdate.Progress{LastContainerStatuses: one, UpdateImages: true}, app3,
			inplaceupdate.Progress{LastContainerStatuses: containerRecords{"app": {ImageID: "sha256:2"}}, UpdateImages: true, SupersededImages: superseded{"app": {"app:v2"}}},
		},
		{"U-23 left alone, and time has proven it", leftAlone, &seen, labelled, inplaceupdate.Progress{}},
		{"U-28 changed again, perhaps from an overtaken image", appRuns("app:other", "sha256:2"), &doubtful, app3, again},
		{"U-28 back to that image: its env has been read", appRuns("app:other", "sha256:2"), &doubtful, inplaceupdate.Plan{Images: containerImages{"app": "app:v0"}}, again},
	}
}

func inheritedWaits(t *testing.T) []inherited {
	recorded := containerRecords{"app": {ImageID: "sha256:1"}}
	slow := func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = nil }
	return []inherited{
		{"U-23 resources that are not given yet", slow, &inplaceupdate.Progress{UpdateResources: true}, labelled, inplaceupdate.Progress{UpdateResources: true}},
		{"U-23 resources that are given", func(*corev1.Pod) {}, &inplaceupdate.Progress{UpdateResources: true}, labelled, inplaceupdate.Progress{}},
		{"U-23 resources that nobody asked for", slow, &inplaceupdate.Progress{}, labelled, inplaceupdate.Progress{}},
		{"U-23 env that is not reported yet", func(*corev1.Pod) {}, &inplaceupdate.Progress{UpdateEnvFromMetadata: true}, labelled, inplaceupdate.Progress{UpdateEnvFromMetadata: true}},
		{"U-23 env that is reported", func(pod *corev1.Pod) { report(t, pod) }, &inplaceupdate.Progress{UpdateEnvFromMetadata: true}, labelled, inplaceupdate.Progress{}},
		{"U-23 env that nobody waits for", func(*corev1.Pod) {}, &inplaceupdate.Progress{}, labelled, inplaceupdate.Progress{}},
		{
			"U-23 all of it", func(pod *corev1.Pod) { appRuns("app:v1", "sha256:1")(pod); slow(pod) }, &inplaceupdate.Progress{LastContainerStatuses: recorded, UpdateImages: true, UpdateResources: true, UpdateEnvFromMetadata: true}, labelled,
			inplaceupdate.Progress{LastContainerStatuses: recorded, UpdateImages: true, UpdateResources: true, UpdateEnvFromMetadata: true},
		},
	}
}

// TestCompletionOfOvertakingUpdates starts several updates in succession before the node acts. Next compares each
// container with the image that the container had before the change of its own image.
func TestCompletionOfOvertakingUpdates(t *testing.T) {
	v1 := newTemplate()
	app2 := newTemplate(image("app", "app:v2"))
	both := newTemplate(image("app", "app:v2"), image("log", "log:v2"))
	labelled := newTemplate(image("app", "app:v2"), label("x", "1"))
	moved := newTemplate(image("app", "app:v2"), label("x", "1"), limits(0, "cpu", "2"))
	third := newTemplate(image("app", "app:v3"), label("x", "1"))
	waits := func(containers ...string) []string {
		var out []string
		for _, name := range containers {
			out = append(out, "ImageNotRunning status.containerStatuses["+name+"].imageID")
		}
		return out
	}
	for _, tc := range []struct {
		name      string
		templates []*template
		app, log  string // running images
		want      []string
	}{
		{"U-23 a label overtakes, the first image runs", []*template{v1, app2, labelled}, "app:v1", "log:v1", waits("app")},
		{"U-23 a label overtakes, the image runs", []*template{v1, app2, labelled}, "app:v2", "log:v1", nil},
		{"U-23 a label and back, the first image runs", []*template{v1, app2, labelled, app2}, "app:v1", "log:v1", waits("app")},
		{"U-23 another container overtakes, nothing runs", []*template{v1, app2, both}, "app:v1", "log:v1", waits("app", "log")},
		{"U-23 another container overtakes, the first runs", []*template{v1, app2, both}, "app:v2", "log:v1", waits("log")},
		{"U-23 another container overtakes, the second runs", []*template{v1, app2, both}, "app:v1", "log:v2", waits("app")},
		{"U-23 another container overtakes, both run", []*template{v1, app2, both}, "app:v2", "log:v2", nil},
		{"U-28 overtaken, a label later, the overtaken image runs", []*template{v1, app2, third, newTemplate(image("app", "app:v3"))}, "app:v2", "log:v1", waits("app")},
		{"U-28 overtaken, a label later, the wanted image runs", []*template{v1, app2, third, newTemplate(image("app", "app:v3"))}, "app:v3", "log:v1", nil},
		{"U-25 overtaken, and that image has no tag", []*template{v1, newTemplate(image("app", "app")), newTemplate(image("app", "app:v3"))}, "app:latest", "log:v1", waits("app")},
		{"U-28 there and back, the image in between runs", []*template{v1, app2, v1}, "app:v2", "log:v1", waits("app")},
		{"U-28 there and back, nothing has moved", []*template{v1, app2, v1}, "app:v1", "log:v1", nil},
		{"U-12 a label and a resize overtake, the first image runs", []*template{v1, app2, labelled, moved}, "app:v1", "log:v1", waits("app")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater := newUpdater()
			pod := newPod(tc.templates[0])
			for i, to := range tc.templates[1:] {
				pod = write(t, pod, mustStart(t, updater, pod, tc.templates[i], to, toward("r", 0), now))
			}
			catchUp(pod)
			for i, runs := range []string{tc.app, tc.log} {
				s := &pod.Status.ContainerStatuses[i]
				s.Image, s.ImageID, s.ContainerID = runs, "sha256:"+runs, "containerd://"+s.Name+"/"+runs
			}
			step := mustNext(t, updater, pod, now)
			if diff := cmp.Diff(tc.want, codesAndPaths(step.Waiting)); diff != "" || step.Complete != (tc.want == nil) {
				t.Errorf("waiting (-want +got), complete %v:\n%s", step.Complete, diff)
			}
		})
	}
}
