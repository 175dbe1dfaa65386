package podcontrol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func numberedControl(t *testing.T) *podcontrol.Control {
	t.Helper()
	inPlace, err := inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "x.io/update", GraceAnnotation: "x.io/grace", Gate: "x.io/Updated", Reserved: []string{"x.io/revision", "x.io/state", "x.io/since", "x.io/delete"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	machine, err := lifecycle.New(lifecycle.Keys{State: "x.io/state", Timestamp: "x.io/since"})
	if err != nil {
		t.Fatal(err)
	}
	control, err := podcontrol.New(podcontrol.Config{InPlace: inPlace, RevisionLabel: "x.io/revision", DeleteLabel: "x.io/delete", Lifecycle: machine})
	if err != nil {
		t.Fatal(err)
	}
	return control
}

// member returns a ready Pod at the update revision, an hour old, with the given changes.
func member(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Labels: map[string]string{"x.io/revision": "2", "app": "web"},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))},
		}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func created(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-ago)) }
}

func updatedInPlace(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{"x.io/update": `{"revision":"web-2","updateTimestamp":"` + noon.Add(-ago).Format(time.RFC3339) + `"}`}
	}
}

func TestNumbered(t *testing.T) {
	type pod = numbered.Pod
	rest := func(p *podcontrol.Pod) time.Duration {
		if p.Unreadable != nil {
			return time.Hour
		}
		return 0
	}
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		minReady time.Duration
		want     []pod
		broken   time.Duration
		stranger bool
	}{
		{name: "available", pod: member("web-3"), want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Available}}},
		{name: "old", pod: member("web-0", labelled("x.io/revision", "web-1")), want: []pod{{Health: rollout.Available}}},
		{name: "broken", pod: member("web-3", unready), want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable}}},
		{
			name: "created a moment ago", pod: member("web-3", unready, created(10*time.Second)), broken: 20 * time.Second,
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable, Starting: true}},
		},
		{
			name: "restarted a moment ago for its update", pod: member("web-3", unready, updatedInPlace(5*time.Second)), broken: 25 * time.Second,
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable, Starting: true}},
		},
		{name: "updated long ago", pod: member("web-3", unready, updatedInPlace(time.Minute)), want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable}}},
		{
			name: "ready for too short a time, however long that takes", pod: member("web-3"), minReady: time.Hour,
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable, Starting: true}},
		},
		{
			name: "terminating", pod: member("web-3", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) }),
			want: []pod{{Ordinal: 3, Health: rollout.Terminating}},
		},
		{
			name: "ended", pod: member("web-3", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			want: []pod{{Ordinal: 3, Health: rollout.Ended}},
		},
		{
			name: "ended and terminating", pod: member("web-3", func(p *corev1.Pod) {
				p.Status.Phase, p.DeletionTimestamp = corev1.PodFailed, new(metav1.NewTime(noon))
			}), want: []pod{{Ordinal: 3, Health: rollout.Terminating}},
		},
		{name: "not selected", pod: member("web-3", labelled("app", "other")), want: []pod{{Ordinal: 3, Health: rollout.Terminating, NotSelected: true}}},
		{
			name: "asked to be deleted", pod: member("web-3", labelled("x.io/delete", "")),
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Available, Specified: true}},
		},
		{
			name: "asked to be deleted and waiting", pod: member("web-3", labelled("x.io/delete", ""), labelled("x.io/state", "PreparingDelete")),
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable, Specified: true, PreDeleting: true}},
		},
		{
			name: "waits to be deleted", pod: member("web-3", labelled("x.io/state", "PreparingDelete")),
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable, PreDeleting: true}},
		},
		{
			name: "waits to be updated", pod: member("web-3", labelled("x.io/state", "PreparingUpdate")),
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Unavailable, PreUpdating: true}},
		},
		{
			name: "unreadable", pod: member("web-3", func(p *corev1.Pod) { p.Annotations = map[string]string{"x.io/update": "{"} }),
			want: []pod{{Ordinal: 3, Updated: true, Health: rollout.Available, Rest: time.Hour}},
		},
		{name: "no name of its Pods", pod: member("web-03"), stranger: true},
		{name: "that of another owner's Pod", pod: member("webs-3"), stranger: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := podcontrol.Want{Update: "web-2", MinReady: tc.minReady, Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}
			set := podcontrol.NewReader(numberedControl(t)).Read("u", []*corev1.Pod{tc.pod}, want, noon)
			got := set.Numbered("web", podcontrol.NumberedOptions{StartTime: 30 * time.Second, Rest: rest}, noon)
			if diff := cmp.Diff(tc.want, got.Pods); diff != "" {
				t.Errorf("Pods (-want +got):\n%s", diff)
			}
			if got.NextBroken != tc.broken {
				t.Errorf("NextBroken = %s, want %s", got.NextBroken, tc.broken)
			}
			if stranger := len(got.Unnumbered) == 1; stranger != tc.stranger {
				t.Errorf("unnumbered: %t, want %t", stranger, tc.stranger)
			}
			if found := got.Of([]int{9, 3, 0}); len(found) != len(got.Pods) || len(found) > 0 && found[0] != tc.pod {
				t.Errorf("found %v", found)
			}
		})
	}
}

func TestNumberedOrder(t *testing.T) {
	control := numberedControl(t)
	set := podcontrol.NewReader(control).Read("u", []*corev1.Pod{member("web-2"), member("web-10"), member("web-0")}, podcontrol.Want{}, noon)
	members := set.Numbered("web", podcontrol.NumberedOptions{}, noon)
	if diff := cmp.Diff([]string{"web-10", "web-2", "web-0"}, podNames(members.Order(false))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web-2", "web-10", "web-0"}, podNames(members.Order(true))); diff != "" {
		t.Errorf("as sorted (-want +got):\n%s", diff)
	}
}

func TestNumberedIsComplete(t *testing.T) {
	for _, tc := range []struct {
		name string
		pods []*corev1.Pod
		want bool
	}{
		{"all there", []*corev1.Pod{member("web-0"), member("web-1")}, true},
		{"and one that is not wanted", []*corev1.Pod{member("web-0"), member("web-1"), member("web-7", unready)}, true},
		{"one missing, another too many", []*corev1.Pod{member("web-0"), member("web-7")}, false},
		{"one old", []*corev1.Pod{member("web-0"), member("web-1", labelled("x.io/revision", "web-1"))}, false},
		{"one not available", []*corev1.Pod{member("web-0"), member("web-1", unready)}, false},
		{"one waits", []*corev1.Pod{member("web-0"), member("web-1", labelled("x.io/state", "PreparingDelete"))}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := podcontrol.NewReader(numberedControl(t)).Read("u", tc.pods, podcontrol.Want{Update: "web-2"}, noon)
			wanted, err := ordinals.Of(ordinals.Paths{}, 0, 2)
			if err != nil {
				t.Fatal(err)
			}
			numbered := set.Numbered("web", podcontrol.NumberedOptions{}, noon)
			if got := numbered.IsComplete(wanted); got != tc.want {
				t.Errorf("complete: %t, want %t", got, tc.want)
			}
			if numbered.IsComplete(ordinals.Set{}) {
				t.Error("complete for a set that nobody has computed")
			}
		})
	}
}

// TestNewPodIsHeld: the first update of a new Pod waits for the hook for updates (inPlaceUpdate), and for no other
// hook.
func TestNewPodIsHeld(t *testing.T) {
	rules := podcontrol.Rules{Hooks: lifecycle.Hooks{InPlaceUpdate: &lifecycle.Hook{Labels: map[string]string{"hold": "yes"}, BeforeOnly: true}}}
	pod := numberedControl(t).NewPod(&corev1.PodTemplateSpec{}, "default", metav1.OwnerReference{}, rules, "web-2", noon)
	want := map[string]string{"hold": "yes", "x.io/revision": "2", "x.io/state": "PreparingNormal"}
	if diff := cmp.Diff(want, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestCancel: Cancel ends a Pod's wait for any hook, for an owner that wants to keep the Pod unchanged.
func TestCancel(t *testing.T) {
	for state, want := range map[string]string{"PreparingDelete": "PreparingNormal", "PreparingUpdate": "Normal", "Updating": ""} {
		t.Run(state, func(t *testing.T) {
			step, err := numberedControl(t).Cancel(member("web-3", labelled("x.io/state", state)), podcontrol.Rules{}, noon)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, change := range step.Changes {
				if value := change.Labels["x.io/state"]; value != nil {
					got = *value
				}
			}
			if got != want {
				t.Errorf("goes to %q, want %q", got, want)
			}
		})
	}
}

// TestExplain: the reason OrderedWait names the Pod for which the step waits, and contains the shortened message of
// the Pod's condition.
func TestExplain(t *testing.T) {
	control := numberedControl(t)
	says := func(message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message})
		}
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"no Node":           {[]*corev1.Pod{member("web-0"), member("web-1", unready, says("no room"))}, "OrderedWait: Pod web-1: the Pod of ordinal 1 is not available (Unschedulable: no room); wait until it is available, or delete it"},
		"nothing is known":  {[]*corev1.Pod{member("web-0", unready)}, "OrderedWait: Pod web-0: the Pod of ordinal 0 is not available; wait until it is available, or delete it"},
		"a long message":    {[]*corev1.Pod{member("web-0", unready, says(strings.Repeat("x", 500)))}, "OrderedWait: Pod web-0: the Pod of ordinal 0 is not available (Unschedulable: " + strings.Repeat("x", 285) + "...); wait until it is available, or delete it"},
		"nobody is awaited": {[]*corev1.Pod{member("web-0"), member("web-1"), member("web-2")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := podcontrol.NewReader(control).Read("owner", tc.pods, podcontrol.Want{Update: "2"}, noon)
			members := set.Numbered("web", podcontrol.NumberedOptions{}, noon)
			wanted, err := ordinals.Of(ordinals.Paths{}, 0, 3)
			if err != nil {
				t.Fatal(err)
			}
			step, err := numbered.Plan(numbered.Spec{Wanted: wanted}, members.Pods)
			if err != nil {
				t.Fatal(err)
			}
			if got := members.Explain(&step).String(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
