package podcontrol_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

func ended(pod *corev1.Pod)       { pod.Status.Phase = corev1.PodSucceeded }
func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(begin)) }
func updated(pod *corev1.Pod)     { label(revisionLabel, "web-2")(pod) }
func marked(pod *corev1.Pod)      { label(deleteLabel, "true")(pod) }

func podNames(pods []*corev1.Pod) []string {
	out := []string{}
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}

// read reads Pods for an update to revision web-2, a minute after the Pods became ready.
func read(t testing.TB, want podcontrol.Want, pods ...*corev1.Pod) *podcontrol.Set {
	t.Helper()
	want.Update = "web-2"
	return podcontrol.NewReader(control(t)).Read("owner", pods, want, begin.Add(time.Minute))
}

// ExampleReader prints an owner's report about its Pods, and the Pods chosen for deletion and update.
func ExampleReader() {
	inPlace, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "example.com/update", GraceAnnotation: "example.com/grace", Reserved: []string{"example.com/revision"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	control, err := podcontrol.New(podcontrol.Config{InPlace: inPlace, RevisionLabel: "example.com/revision"})
	if err != nil {
		fmt.Println(err)
		return
	}
	reader := podcontrol.NewReader(control) // one per controller; cache.OnReplaced(reader.Drop); cache.OnGone(reader.Forget)
	pods := []*corev1.Pod{newPod("web-a", running), newPod("web-b", running, updated), newPod("web-c")}
	set := reader.Read("uid-of-web", pods, podcontrol.Want{Update: "web-2", Delete: []string{"web-c"}}, begin.Add(time.Minute))

	fmt.Printf("%+v\n", set.Totals())
	step := rollout.Plan(rollout.Spec{Replicas: 2, MaxUnavailable: 1}, set.Counts(false))
	fmt.Println("delete", podNames(set.ChooseDeletions(step, podcontrol.Orders{}).Delete))
	fmt.Println("update", podNames(set.ChooseUpdates(step, podcontrol.Orders{}).Update))
	// Output:
	// {Pods:3 Ready:2 Available:2 Updated:1 UpdatedReady:1 UpdatedAvailable:1}
	// delete [web-c]
	// update [web-a]
}

// TestMemoryIsLetGo: the Reader forgets Pods that the cache has replaced or deleted, and reads each of the other Pods
// only once.
func TestMemoryIsLetGo(t *testing.T) {
	all := podcontrol.Want{Update: "web-2"}
	read := func(r *podcontrol.Reader, pods ...*corev1.Pod) *podcontrol.Set {
		return r.Read("owner", pods, all, begin)
	}
	for _, tc := range []struct {
		name string
		do   func(r *podcontrol.Reader, pod *corev1.Pod)
		kept bool
	}{
		{"nothing happened", func(*podcontrol.Reader, *corev1.Pod) {}, true},
		{"it is read again", func(r *podcontrol.Reader, pod *corev1.Pod) { read(r, pod) }, true},
		{"replaced", func(r *podcontrol.Reader, pod *corev1.Pod) { r.Drop("owner", pod) }, false},
		{"replaced, of another owner", func(r *podcontrol.Reader, pod *corev1.Pod) { r.Drop("another", pod) }, true},
		{"another is replaced", func(r *podcontrol.Reader, pod *corev1.Pod) { r.Drop("owner", pod.DeepCopy()) }, true},
		{"its owner is gone", func(r *podcontrol.Reader, _ *corev1.Pod) { r.Forget("owner") }, false},
		{"another owner is gone", func(r *podcontrol.Reader, _ *corev1.Pod) { r.Forget("another") }, true},
		{"replaced, and nobody said so", func(r *podcontrol.Reader, pod *corev1.Pod) { read(r, pod.DeepCopy()) }, false},
		{"it was the last, and nobody said so", func(r *podcontrol.Reader, _ *corev1.Pod) { read(r) }, false},
		{"read for another owner", func(r *podcontrol.Reader, pod *corev1.Pod) {
			r.Read("another", []*corev1.Pod{pod.DeepCopy()}, all, begin)
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := podcontrol.NewReader(control(t))
			pod := newPod("a")
			read(r, pod)
			tc.do(r, pod)
			held := weak.Make(pod)
			pod = nil
			runtime.GC()
			if kept := held.Value() != nil; kept != tc.kept {
				t.Errorf("the Pod is held in memory: %t, want %t", kept, tc.kept)
			}
			runtime.KeepAlive(r)
			_ = pod
		})
	}
}

// TestReadOnce: the Reader identifies Pods by their pointers, so the Reader does not notice that a test has modified
// an object in place.
func TestReadOnce(t *testing.T) {
	r, pod := podcontrol.NewReader(control(t)), newPod("a")
	isMarked := func(pod *corev1.Pod) bool {
		return r.Read("owner", []*corev1.Pod{pod}, podcontrol.Want{}, begin).Active[0].Marked
	}
	isMarked(pod)
	marked(pod)
	if isMarked(pod) {
		t.Error("a Pod is read again although it is the same object")
	}
	if r.Drop("owner", pod); !isMarked(pod) {
		t.Error("a Pod is not read again after Drop")
	}
	if !isMarked(newPod("a", marked)) {
		t.Error("another object is taken for the one that was read")
	}
}

// TestSelectors: the owner's selector may change although no Pod changes.
func TestSelectors(t *testing.T) {
	parse := func(s string) labels.Selector {
		selector, err := labels.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector
	}
	r := podcontrol.NewReader(control(t))
	pods := []*corev1.Pod{newPod("a", label("app", "a")), newPod("b", label("app", "b")), newPod("c", label("app", "b"), ended)}
	for _, tc := range []struct {
		name             string
		selector         labels.Selector
		active, inactive []string
		others           []string
	}{
		{"none selects all", nil, []string{"a", "b"}, []string{"c"}, []string{}},
		{"one", parse("app=a"), []string{"a"}, []string{}, []string{"b", "c"}},
		{"another", parse("app=b"), []string{"b"}, []string{"c"}, []string{"a"}},
		{"everything", labels.Everything(), []string{"a", "b"}, []string{"c"}, []string{}},
		{"nothing", labels.Nothing(), []string{}, []string{}, []string{"a", "b", "c"}},
		{"none again", nil, []string{"a", "b"}, []string{"c"}, []string{}},
	} {
		set := r.Read("owner", pods, podcontrol.Want{Selector: tc.selector}, begin)
		active := podNames(set.Select(func(*podcontrol.Pod) bool { return true }))
		if diff := cmp.Diff([][]string{tc.active, tc.inactive, tc.others}, [][]string{active, podNames(set.Inactive), podNames(set.NotSelected)}); diff != "" {
			t.Errorf("%s: active, inactive and not selected (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestReaderIsSafe: the race detector checks concurrent use of a Reader.
func TestReaderIsSafe(t *testing.T) {
	r := podcontrol.NewReader(control(t))
	pods := make([]*corev1.Pod, 50)
	for i := range pods {
		pods[i] = newPod(fmt.Sprint(i), running)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				if set := r.Read("owner", pods[:n], podcontrol.Want{}, begin); len(set.Active) != n || n > 0 && set.Of(pods[n-1]) == nil {
					t.Errorf("%d of %d Pods", len(set.Active), n)
				}
				if r.Drop("owner", pods[n]); i == 0 {
					r.Forget("owner")
				}
			}
		})
	}
	wg.Wait()
}

func TestAvailability(t *testing.T) {
	notYet := newPod("a", running)
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		minReady  time.Duration
		available bool
		next      time.Duration
	}{
		{"C-49 ready", notYet, 0, true, 0},
		{"C-49 ready for long enough", notYet, time.Minute, true, 0},
		{"C-49 not for long enough", notYet, 90 * time.Second, false, 30 * time.Second},
		{"not ready", newPod("a", scheduled), 90 * time.Second, false, 0},
		{"L-10 ready and to be updated", newPod("a", running, inState("PreparingUpdate")), 0, false, 0},
		{"L-10 no event makes it available", newPod("a", running, inState("Updating")), 90 * time.Second, false, 0},
		{"L-10 ready and without a state", newPod("a", running, inState("")), 0, true, 0},
		{"C-49 ready, and its gate is closed", newPod("a", running, func(pod *corev1.Pod) { pod.Status.Conditions[2].Status = corev1.ConditionFalse }), 0, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := read(t, podcontrol.Want{MinReady: tc.minReady}, tc.pod)
			if p := set.Of(tc.pod); p.Available != tc.available || set.NextAvailable != tc.next {
				t.Errorf("available %t, the next in %v, want %t and %v", p.Available, set.NextAvailable, tc.available, tc.next)
			}
		})
	}
	away := func(pod *corev1.Pod) bool { return pod.Name == "a" }
	if set := read(t, podcontrol.Want{Away: away}, notYet, newPod("b", running)); set.Totals().Available != 1 || set.Totals().Ready != 2 {
		t.Errorf("a Pod about to leave service counts: %+v", set.Totals())
	}
	later := newPod("b", running, func(pod *corev1.Pod) {
		pod.Status.Conditions[3].LastTransitionTime = metav1.NewTime(begin.Add(50 * time.Second))
	})
	for _, pods := range [][]*corev1.Pod{{notYet, later}, {later, notYet}} {
		if set := read(t, podcontrol.Want{MinReady: 90 * time.Second}, pods...); set.NextAvailable != 30*time.Second {
			t.Errorf("the next is available in %v, want the earliest", set.NextAvailable)
		}
	}
}

// TestNoUpdateRevision: if Want.Update is empty, no Pod is outdated.
func TestNoUpdateRevision(t *testing.T) {
	set := podcontrol.NewReader(control(t)).Read("owner", []*corev1.Pod{newPod("a", running)}, podcontrol.Want{}, begin)
	if !set.Active[0].Updated {
		t.Error("a Pod counts as outdated although no revision is wanted")
	}
}

func TestCountsAndTotals(t *testing.T) {
	leaving, preparing := inState("PreparingDelete"), inState("PreparingUpdate")
	pods := []*corev1.Pod{
		newPod("old", running), newPod("old-down"), newPod("old-leaving", running, leaving), newPod("old-leaving-marked", leaving, marked),
		newPod("old-marked", running, marked), newPod("old-marked-down", marked), newPod("old-named", running), newPod("old-preparing", running, preparing),
		newPod("new", running, updated), newPod("new-short", running, label(revisionLabel, "2")), newPod("new-down", updated),
		newPod("new-marked-down", updated, marked), newPod("ended", ended), newPod("gone", terminating, updated, running),
	}
	set := read(t, podcontrol.Want{Delete: []string{"old-named", "ended", "nobody"}}, pods...)
	old := rollout.Group{Total: 8, PreDeleting: 2, Specified: 3, SpecifiedUnavailable: 1, Unavailable: 2}
	updatedGroup := rollout.Group{Total: 4, Specified: 1, SpecifiedUnavailable: 1, Unavailable: 1}
	if diff := cmp.Diff(rollout.Counts{Old: old, New: updatedGroup}, set.Counts(false)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	old.Total, old.Unavailable, updatedGroup.Total, updatedGroup.Unavailable = 7, 1, 5, 2
	if diff := cmp.Diff(rollout.Counts{Old: old, New: updatedGroup}, set.Counts(true)); diff != "" {
		t.Errorf("counts where those that prepare are updated (-want +got):\n%s", diff)
	}
	want := podcontrol.Totals{Pods: 12, Ready: 7, Available: 5, Updated: 4, UpdatedReady: 2, UpdatedAvailable: 2}
	if diff := cmp.Diff(want, set.Totals()); diff != "" {
		t.Errorf("C-49 totals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ended", "gone"}, podNames(set.Inactive)); diff != "" {
		t.Errorf("inactive (-want +got):\n%s", diff)
	}
	if set.Of(pods[12]) != nil || set.Of(&corev1.Pod{}) != nil || set.Of(pods[0]).Pod != pods[0] {
		t.Error("Of knows Pods that are not active, or another than was asked for")
	}
	for name, uses := range map[string]bool{"web-1": true, "web-2": true, "web-3": false, "other-2": true} { // a hash also names a revision
		if got := set.Uses(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != uses {
			t.Errorf("Uses(%s) = %t, want %t", name, got, uses)
		}
	}
	downs := set.Select(func(p *podcontrol.Pod) bool { return !p.Ready })
	if diff := cmp.Diff([]string{"new-down", "new-marked-down", "old-down", "old-leaving-marked", "old-marked-down"}, podNames(downs)); diff != "" {
		t.Errorf("selected (-want +got):\n%s", diff)
	}
	if !slices.IsSorted(podNames(set.Select(func(*podcontrol.Pod) bool { return true }))) {
		t.Error("Select does not sort by name")
	}
}

func TestWhollyInPlace(t *testing.T) {
	possible, blocked := &inplaceupdate.Plan{}, &inplaceupdate.Plan{Blocking: reason.List{{Code: inplaceupdate.ImmutableField}}}
	of := func(revision string) func(*corev1.Pod) { return label(revisionLabel, revision) }
	for _, tc := range []struct {
		name  string
		pods  []*corev1.Pod
		want  bool
		asked []string
	}{
		{"no Pods", nil, true, nil},
		{"all are updated", []*corev1.Pod{newPod("a", updated)}, true, nil},
		{"one revision, asked about once", []*corev1.Pod{newPod("a"), newPod("b")}, true, []string{"web-1"}},
		{"one that cannot", []*corev1.Pod{newPod("a"), newPod("b", of("web-x"))}, false, []string{"web-1", "web-x"}},
		{"one that cannot, and goes anyway", []*corev1.Pod{newPod("a", of("web-x"), marked), newPod("b", of("web-x"), inState("PreparingDelete"))}, true, nil},
		{"one that cannot, and has ended", []*corev1.Pod{newPod("a", of("web-x"), ended)}, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked []string
			got := read(t, podcontrol.Want{}, tc.pods...).WhollyInPlace(func(revision string) *inplaceupdate.Plan {
				if asked = append(asked, revision); revision == "web-x" {
					return blocked
				}
				return possible
			})
			if diff := cmp.Diff(tc.asked, asked); got != tc.want || diff != "" {
				t.Errorf("WhollyInPlace = %t, want %t; asked (-want +got):\n%s", got, tc.want, diff)
			}
		})
	}
}
