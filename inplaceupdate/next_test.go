package inplaceupdate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
)

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
		again time.Duration // 0 if Next returns the change now
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
		want  string // empty if Next returns the change now
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

// batches runs an update to its end on a node whose containers are always ready, and returns the containers of each
// batch.
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
	// The remedy for a stuck update is an update to a repaired template: it replaces the stuck update and also
	// delivers the pending changes.
	repaired := newTemplate(priority(0, 10), priority(1, 0), image("app", "app:v3"), image("log", "log:v2"))
	pod = write(t, pod, mustStart(t, updater, pod, to, repaired, toward("3", 0), now))
	for range 3 {
		catchUp(pod)
		pod = write(t, pod, mustNext(t, updater, pod, now).Change)
	}
	checkDelivered(t, pod, repaired)
}

// TestGateOfAnUnreportedPod: scheduler and kubelet write to a new Pod, and an early write of the gate's condition
// would conflict with these writes. A gate closed by Start is opened without waiting for the node's report.
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
				// The change applies only to the given version of the Pod.
				want.Change = podpatch.Change{UID: "u1", ResourceVersion: "1", Conditions: []corev1.PodCondition{*condition("True", "", "")}}
			}
			if diff := cmp.Diff(want, mustNext(t, newUpdater(), pod, now)); diff != "" {
				t.Errorf("U-24 Next without state (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGraceOfTheFuture: the start time in the state is in the future, because of a wrong clock or an edit by a user.
// The change kept in the grace annotation is delivered all the same.
func TestGraceOfTheFuture(t *testing.T) {
	order := []func(*template){limits(1, "cpu", "200m")}
	from := newTemplate(order...)
	updater, to := newUpdater(), newTemplate(append(order, image("app", "app:v2"))...)
	for name, at := range map[string]string{"a year": "2027-11-26T00:00:00Z", "2300": "2300-01-01T00:00:00Z", "9999": "9999-01-01T00:00:00Z"} {
		pod := write(t, newPod(from), mustStart(t, updater, newPod(from), from, to, toward("web-2", 30), now))
		state := pod.Annotations[stateKey]
		before, rest, _ := strings.Cut(state, `"updateTimestamp":"`)
		_, rest, _ = strings.Cut(rest, `"`)
		pod.Annotations[stateKey] = before + `"updateTimestamp":"` + at + `"` + rest
		step, err := updater.Next(pod, now.Add(time.Hour))
		if err != nil || step.Change.Images["app"] != "app:v2" {
			t.Errorf("%s: waiting %v, again in %s, change %v, error %v", name, step.Waiting, step.RequeueAfter, step.Change.Images, err)
		}
	}
}

// TestBatchResources follows the resources of two batches through the state annotation: Next sends them, waits for
// the node, and removes them at the end, so that an autoscaler may change the resources.
func TestBatchResources(t *testing.T) {
	setup := []func(*template){priority(0, 10), priority(1, 0), requests(1, "cpu", "100m"), limits(1, "cpu", "1")}
	from := newTemplate(setup...)
	to := newTemplate(append(setup, limits(0, "cpu", "2"), limits(1, "cpu", "2"))...)
	type resources = containerResources
	type seen struct {
		What                      string
		Batch, Next, Sent         resources
		UpdateResources, Complete bool
	}
	for _, lost := range []bool{false, true} {
		name := map[bool]string{false: "U-18 U-21 each batch has its own", true: "U-12 requests for resizes get lost"}[lost]
		t.Run(name, func(t *testing.T) {
			updater := newUpdater()
			pod := newPod(from)
			var got []seen
			record := func(what string, change podpatch.Change, complete bool) {
				sent := change.Resources
				if lost && strings.HasPrefix(what, "batch") {
					change.Resources = nil
				}
				pod = write(t, pod, change)
				catchUp(pod)
				state, err := updater.Saved(pod)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, seen{what, state.BatchResources, state.NextContainerResources, sent, state.UpdateResources, complete})
			}
			next := func(what string) {
				step := mustNext(t, updater, pod, now)
				if !step.Change.IsEmpty() && (step.Change.UID != pod.UID || step.Change.ResourceVersion != pod.ResourceVersion) {
					t.Errorf("%s is not bound to the Pod it was decided on: %+v", what, step.Change)
				}
				record(what, step.Change, step.Complete)
			}
			app, log := resources{"app": limited("cpu", "2")}, resources{"log": limited("cpu", "2")}
			record("batch 1", mustStart(t, updater, pod, from, to, toward("2", 0), now), false)
			want := []seen{{"batch 1", app, log, app, true, false}}
			if lost {
				next("again")
				want = append(want, seen{"again", app, log, app, true, false})
			}
			next("batch 2")
			want = append(want, seen{"batch 2", log, nil, log, true, false})
			if lost {
				next("again")
				want = append(want, seen{"again", log, nil, log, true, false})
			}
			next("end")
			next("nothing left")
			want = append(want, seen{"end", nil, nil, nil, true, true}, seen{"nothing left", nil, nil, nil, true, true})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPostponed: the state keeps each kind of postponed change in a field of its own, and unneeded fields are not
// written.
func TestPostponed(t *testing.T) {
	from := newTemplate(priority(0, 10), priority(1, 0))
	zone, cpu := containerRefs{"log": refLabels("zone", "b")}, containerResources{"log": limited("cpu", "1")}
	first := &inplaceupdate.PreCheck{ContainersRequiredReady: []string{"app"}}
	for _, tc := range []struct {
		name string
		plan inplaceupdate.Plan
		want inplaceupdate.Progress
	}{
		{"U-18 nothing", app3, inplaceupdate.Progress{}},
		{"U-18 an image", inplaceupdate.Plan{Images: flat("app", "app:v3", "log", "log:v2")}, inplaceupdate.Progress{NextContainerImages: flat("log", "log:v2"), PreCheckBeforeNext: first}},
		{"U-18 metadata", inplaceupdate.Plan{Images: app3.Images, RefMetadata: zone}, inplaceupdate.Progress{NextContainerRefMetadata: zone, PreCheckBeforeNext: first}},
		{"U-21 [BUG] resources", inplaceupdate.Plan{Images: app3.Images, Resources: cpu}, inplaceupdate.Progress{NextContainerResources: cpu, PreCheckBeforeNext: first}},
		{
			"U-18 several containers of a kind",
			inplaceupdate.Plan{
				Images: flat("app", "app:v3", "log", "log:v2", "mesh", "mesh:v2"), RefMetadata: containerRefs{"log": refLabels("zone", "b"), "mesh": refAnnotations("cfg", "2")},
				Resources: containerResources{"log": limited("cpu", "1"), "mesh": limited("cpu", "1")},
			},
			inplaceupdate.Progress{
				NextContainerImages: flat("log", "log:v2", "mesh", "mesh:v2"), NextContainerRefMetadata: containerRefs{"log": refLabels("zone", "b"), "mesh": refAnnotations("cfg", "2")},
				NextContainerResources: containerResources{"log": limited("cpu", "1"), "mesh": limited("cpu", "1")}, PreCheckBeforeNext: first,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := from.DeepCopy()
			base.Spec.Containers = append(base.Spec.Containers, corev1.Container{Name: "mesh", Image: "mesh:v1"})
			priority(2, 0)(base)
			change, state, _ := startPlan(t, newUpdater(), newPod(base), &tc.plan, 0)
			got := inplaceupdate.Progress{
				NextContainerImages: state.NextContainerImages, NextContainerRefMetadata: state.NextContainerRefMetadata,
				NextContainerResources: state.NextContainerResources, PreCheckBeforeNext: state.PreCheckBeforeNext,
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("postponed (-want +got):\n%s", diff)
			}
			want := podpatch.Change{
				UID: "u1", Annotations: keys(), Images: app3.Images, ForceConditions: true,
				Conditions: []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: "StartInPlaceUpdate"}},
			}
			if diff := cmp.Diff(want, change); diff != "" {
				t.Errorf("first batch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnsentResize: Next sends resources again if the state has them and the Pod's spec does not.
func TestUnsentResize(t *testing.T) {
	of := func(r corev1.ResourceRequirements) containerResources { return containerResources{"app": r} }
	for _, tc := range []struct { // app has requests cpu 100m and memory 64Mi, limits cpu 1
		name string
		has  containerResources
		want containerResources
	}{
		{"U-12 nothing given", nil, nil},
		{"U-12 the limit is there", of(limited("cpu", "1")), nil},
		{"U-12 the limit is there, spelled otherwise", of(limited("cpu", "1000m")), nil},
		{"U-12 another limit", of(limited("cpu", "2")), of(limited("cpu", "2"))},
		{"U-12 a limit that is not there", of(limited("memory", "1Gi")), of(limited("memory", "1Gi"))},
		{"U-12 another request", of(corev1.ResourceRequirements{Requests: quantities("cpu", "200m")}), of(corev1.ResourceRequirements{Requests: quantities("cpu", "200m")})},
		{
			"U-12 one of two requests, and the limit is there", of(corev1.ResourceRequirements{Limits: quantities("cpu", "1"), Requests: quantities("cpu", "100m", "memory", "1Gi")}),
			of(corev1.ResourceRequirements{Limits: quantities("cpu", "1"), Requests: quantities("cpu", "100m", "memory", "1Gi")}),
		},
		{"one of two containers", containerResources{"app": limited("cpu", "1"), "log": limited("cpu", "1")}, containerResources{"log": limited("cpu", "1")}},
		{
			"both containers",
			containerResources{"app": limited("cpu", "2"), "log": limited("cpu", "1")},
			containerResources{"app": limited("cpu", "2"), "log": limited("cpu", "1")},
		},
		{"U-12 a native sidecar", containerResources{"proxy": limited("cpu", "1")}, containerResources{"proxy": limited("cpu", "1")}},
		{"a container that the Pod does not have", containerResources{"gone": limited("cpu", "1")}, nil},
		{"a plain init container, which has run", containerResources{"setup": limited("cpu", "1")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := midway(t, newTemplate(), &inplaceupdate.Progress{UpdateResources: true, BatchResources: tc.has}, nil)
			step := mustNext(t, newUpdater(), pod, now)
			if diff := cmp.Diff(tc.want, step.Change.Resources); diff != "" || step.Complete != (tc.want == nil) {
				t.Errorf("sent (-want +got), complete %v:\n%s", step.Complete, diff)
			}
		})
	}
}

// TestEndOfAnUpdate: a single write ends an update: the write opens the gate and removes the recorded resources.
func TestEndOfAnUpdate(t *testing.T) {
	given := &inplaceupdate.Progress{UpdateResources: true, BatchResources: containerResources{"app": limited("cpu", "1")}}
	done := `{"revision":"2","updateTimestamp":"2026-07-01T10:00:00Z","lastContainerStatuses":null,"updateResources":true}`
	for _, tc := range []struct {
		name     string
		progress *inplaceupdate.Progress
		closed   bool
		key      string
		want     map[string]*string
	}{
		{"U-26 nothing to let go of, open", &inplaceupdate.Progress{UpdateImages: true}, false, stateKey, nil},
		{"U-26 nothing to let go of, closed", &inplaceupdate.Progress{UpdateImages: true}, true, stateKey, nil},
		{"U-26 resources, open", given, false, stateKey, keys(stateKey, done)},
		{"U-26 resources, closed", given, true, stateKey, keys(stateKey, done)},
		{"U-26 resources, closed, older name", given, true, oldState, keys(stateKey, done, oldState, "-")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := midway(t, newTemplate(), tc.progress, nil)
			text := pod.Annotations[stateKey]
			delete(pod.Annotations, stateKey)
			pod.Annotations[tc.key] = text
			want := inplaceupdate.Step{Complete: true, Change: podpatch.Change{Annotations: tc.want}}
			if tc.closed {
				pod.Status.Conditions[0].Status = corev1.ConditionFalse
				want.Change.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionTrue}}
			}
			if !want.Change.IsEmpty() {
				want.Change.UID, want.Change.ResourceVersion = "u1", "1"
			}
			if diff := cmp.Diff(want, mustNext(t, newUpdater(), pod, now)); diff != "" {
				t.Errorf("Next (-want +got):\n%s", diff)
			}
		})
	}
}
