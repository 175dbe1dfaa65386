package workloadspread

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/subsets"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(start.Add(-d)) }

type (
	times  = map[string]metav1.Time
	line   = v1beta1.WorkloadSpreadSubsetStatus
	status = v1beta1.WorkloadSpreadStatus
)

const ignored = apps.SubsetVersionIgnored

func settled(t *testing.T, obj *object) *settings {
	t.Helper()
	s, errs := validateSpec(&obj.Spec)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return s
}

func placesOf(t *testing.T, s *settings, of *status, replicas int) []subsets.Place {
	t.Helper()
	places, err := s.places(of, &replicas)
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// unnamed makes a Pod a Pod that gets its name after admission.
func unnamed(p *corev1.Pod) { p.Name, p.GenerateName = "", "web-" }

func closedA() *status {
	return &status{SubsetStatuses: []line{{Name: "a", Conditions: []metav1.Condition{schedulableIs("False", start)}}}}
}

func schedulableIs(is metav1.ConditionStatus, since time.Time) metav1.Condition {
	why := map[metav1.ConditionStatus]string{"True": "Sufficient", "False": "PodUnschedulable"}[is]
	return metav1.Condition{Type: "Schedulable", Status: is, Reason: why, LastTransitionTime: metav1.NewTime(since)}
}

func TestChoose(t *testing.T) {
	now := ago(0)
	key := func(subset, uid string) mark { return mark{"zones", subset, uid} }
	for _, c := range []struct {
		name    string
		obj     *object
		of      *status
		books   ledger
		pod     *corev1.Pod
		version string
		after   ledger
		want    mark
		sure    bool
	}{
		{"WS-15 a single subset without a maximum", spread(maximums(nil)), nil, nil, pod("p"), ignored, nil, key("a", ""), true},
		{
			"WS-16 no list yet", spread(), nil, nil, pod("p"), ignored,
			ledger{ignored: {{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", ""), false,
		},
		{
			"WS-16 a percentage of 5, rounded up", spread(maximums("30%", nil)), nil, nil, pod("p"), ignored,
			ledger{ignored: {{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", ""), false,
		},
		{
			"WS-17 the first is full", spread(), nil,
			ledger{ignored: {{Name: "a", Replicas: 2}, {Name: "b", Replicas: 1, MissingReplicas: -1}}},
			pod("p"), ignored,
			ledger{ignored: {{Name: "a", Replicas: 2}, {Name: "b", Replicas: 1, MissingReplicas: -1}}},
			key("b", ""), false,
		},
		{"WS-17 the first is closed", spread(adaptive(30)), closedA(), nil, pod("p"), ignored, nil, key("b", ""), true},
		{
			"WS-43 closed before the strategy was changed", spread(), closedA(), nil, pod("p"), ignored,
			ledger{ignored: {{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", ""), false,
		},
		{
			"WS-17 no subset has room", spread(maximums(1, 1)), nil,
			ledger{ignored: {{Name: "a", Replicas: 1}, {Name: "b", Replicas: 1}}},
			pod("p"), ignored,
			ledger{ignored: {{Name: "a", Replicas: 1}, {Name: "b", Replicas: 1}}},
			key("", ""), false,
		},
		{
			"WS-19 a Pod without a name has a fresh key", spread(), nil, nil, pod("", unnamed), ignored,
			ledger{ignored: {{Name: "a", MissingReplicas: 1, CreatingPods: times{"fresh": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", "fresh"), false,
		},
		{
			"WS-60 asked again, under the key of the annotation", spread(), nil,
			ledger{ignored: {{Name: "a", CreatingPods: times{"3f0c": ago(time.Second)}}, {Name: "b"}}},
			pod("", unnamed, markedWith(key("a", "3f0c"))), ignored,
			ledger{ignored: {{Name: "a", CreatingPods: times{"3f0c": ago(time.Second)}}, {Name: "b"}}},
			key("a", "3f0c"), false,
		},
		{
			"WS-60 a key that no place has is of another Pod", spread(), nil, nil, pod("", unnamed, markedWith(key("a", "copied"))), ignored,
			ledger{ignored: {{Name: "a", MissingReplicas: 1, CreatingPods: times{"fresh": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", "fresh"), false,
		},
		{
			"WS-60 a key of another WorkloadSpread", spread(), nil,
			ledger{ignored: {{Name: "a", CreatingPods: times{"3f0c": now}}, {Name: "b"}}},
			pod("", unnamed, markedWith(mark{"other", "a", "3f0c"})), ignored,
			ledger{ignored: {{Name: "a", CreatingPods: times{"3f0c": now, "fresh": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", "fresh"), false,
		},
		{"WS-60 asked again for a subset without a maximum, though an earlier one has room now", spread(), nil, nil, pod("", unnamed, markedWith(key("b", "3f0c"))), ignored, nil, key("b", "3f0c"), true},
		{
			"WS-60 a mark alone does not send a Pod there", spread(func(obj *object) { obj.Spec.Subsets[1].Tolerations = pod("", tolerating("x")).Spec.Tolerations }), nil, nil, pod("p", withMark("b")), ignored,
			ledger{ignored: {{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", ""), false,
		},
		{
			"WS-22 each version has all places", spread(), nil,
			ledger{"v1": {{Name: "a", Replicas: 2}, {Name: "b"}}},
			pod("p"), "v2",
			ledger{"v1": {{Name: "a", Replicas: 2}, {Name: "b"}}, "v2": {{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": now}}, {Name: "b", MissingReplicas: -1}}},
			key("a", ""), false,
		},
		{
			"conditions stay", spread(), nil,
			ledger{ignored: {{Name: "a", Conditions: []metav1.Condition{schedulableIs("True", start)}}}},
			pod("p"), ignored,
			ledger{ignored: {{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": now}, Conditions: []metav1.Condition{schedulableIs("True", start)}}, {Name: "b", MissingReplicas: -1}}},
			key("a", ""), false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settled(t, c.obj)
			if c.of == nil {
				c.of = &status{}
			}
			before := (&status{VersionedSubsetStatuses: c.books}).DeepCopy().VersionedSubsetStatuses
			got, answer := s.choose("zones", c.books, placesOf(t, s, c.of, 5), newcomer{pod: c.pod, version: c.version, fresh: "fresh", now: start})
			if diff := cmp.Diff(c.after, got); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
			if answer.Changed != !cmp.Equal(before, got) {
				t.Errorf("changed %v", answer.Changed)
			}
			if diff := cmp.Diff(c.want, answer.mark); diff != "" || answer.sure != c.sure || answer.Subset != c.want.Subset {
				t.Errorf("sure %v, subset %q (-want +got):\n%s", answer.sure, answer.Subset, diff)
			}
			if diff := cmp.Diff(before, c.books); diff != "" {
				t.Errorf("the given ledger has changed:\n%s", diff)
			}
		})
	}
}

// TestChooseUntilFull chooses subsets for Pods, one Pod after the other.
func TestChooseUntilFull(t *testing.T) {
	for _, c := range []struct {
		name string
		obj  *object
		want string
	}{
		{"WS-17 a up to 2, then b", spread(), "aabbbb"},
		{"WS-17 5 places for 6 Pods", spread(maximums(2, 3)), "aabbb-"},
		{"WS-17 percentages of 6", spread(maximums("50%", "50%")), "aaabbb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, got, books := settled(t, c.obj), "", ledger(nil)
			for i := range 6 {
				after, answer := s.choose("zones", books, placesOf(t, s, &status{}, 6), newcomer{pod: pod("", unnamed), version: ignored, fresh: fmt.Sprint("k", i), now: start})
				books = after
				got += (answer.Subset + "-")[:1]
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestChooseNumbered(t *testing.T) {
	numbers := func(first, n int, reserved ...int) ordinals.Set {
		var list []intstr.IntOrString
		for _, r := range reserved {
			list = append(list, *number(int32(r))) //nolint:gosec // small
		}
		set, err := ordinals.Of(ordinals.Paths{}, first, n, list...)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	five := spread(of("apps/v1", "StatefulSet", "db"), maximums(5, 5, nil))
	for _, c := range []struct {
		name   string
		obj    *object
		of     *status
		wanted ordinals.Set
		pod    string
		want   string
	}{
		{"WS-23 0 goes to a", five, nil, numbers(0, 20), "db-0", "a"},
		{"WS-23 4 goes to a", five, nil, numbers(0, 20), "db-4", "a"},
		{"WS-23 5 goes to b", five, nil, numbers(0, 20), "db-5", "b"},
		{"WS-23 10 goes to c", five, nil, numbers(0, 20), "db-10", "c"},
		{"WS-23 all are limited", spread(of("apps/v1", "StatefulSet", "db"), maximums(1, 1)), nil, numbers(0, 20), "db-2", ""},
		{"WS-23 an unschedulable subset", spread(of("apps/v1", "StatefulSet", "db"), maximums(5, nil), adaptive(30)), closedA(), numbers(0, 20), "db-0", "b"},
		{"WS-62 a start is no gap", five, nil, numbers(100, 20), "db-104", "a"},
		{"WS-62 nor are reserved numbers", five, nil, numbers(0, 20, 1, 2, 3), "db-7", "a"},
		{"WS-62 the first after", five, nil, numbers(0, 20, 1, 2, 3), "db-8", "b"},
		{"WS-23 unknown numbers", five, nil, ordinals.Set{}, "db-5", "b"},
		{"WS-23 no number", five, nil, numbers(0, 20), "db-x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.of == nil {
				c.of = &status{}
			}
			s := settled(t, c.obj)
			got := s.chooseNumbered("zones", placesOf(t, s, c.of, 20), pod(c.pod), c.wanted)
			if diff := cmp.Diff(mark{Name: "zones", Subset: c.want}, got.mark); diff != "" || got.Changed || !got.sure {
				t.Errorf("changed %v, sure %v (-want +got):\n%s", got.Changed, got.sure, diff)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	now := ago(0)
	for _, c := range []struct {
		name    string
		books   ledger
		pod     *corev1.Pod
		after   ledger
		changed bool
	}{
		{
			"WS-27 the place is free",
			ledger{ignored: {{Name: "a", Replicas: 2}, {Name: "b", Replicas: 1}}},
			pod("p", withMark("a")),
			ledger{ignored: {{Name: "a", Replicas: 2, MissingReplicas: 1, DeletingPods: times{"p": now}}, {Name: "b", Replicas: 1, MissingReplicas: -1}}},
			true,
		},
		{
			"WS-27 recorded already",
			ledger{ignored: {{Name: "a", Replicas: 2, DeletingPods: times{"p": now}}}},
			pod("p", withMark("a")),
			ledger{ignored: {{Name: "a", Replicas: 2, DeletingPods: times{"p": now}}}},
			false,
		},
		{
			"WS-27 not counted yet",
			ledger{ignored: {{Name: "a", CreatingPods: times{"3f0c": now}}, {Name: "b"}}},
			pod("p", markedWith(mark{"zones", "a", "3f0c"})),
			ledger{ignored: {{Name: "a", MissingReplicas: 2}, {Name: "b", MissingReplicas: -1}}},
			true,
		},
		{"WS-27 no maximum", ledger{ignored: {{Name: "b", Replicas: 2}}}, pod("p", withMark("b")), ledger{ignored: {{Name: "b", Replicas: 2}}}, false},
		{"WS-27 an unknown subset", ledger{ignored: {{Name: "a", Replicas: 2}}}, pod("p", withMark("z")), ledger{ignored: {{Name: "a", Replicas: 2}}}, false},
		{"WS-27 a version without a list", ledger{"v1": {{Name: "a", Replicas: 2}}}, pod("p", withMark("a")), ledger{"v1": {{Name: "a", Replicas: 2}}}, false},
		{"WS-27 of another WorkloadSpread", ledger{ignored: {{Name: "a", Replicas: 2}}}, pod("p", markedWith(mark{"other", "a", ""})), ledger{ignored: {{Name: "a", Replicas: 2}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settled(t, spread())
			got, changed := s.release("zones", c.books, placesOf(t, s, &status{}, 5), c.pod, ignored, start)
			if diff := cmp.Diff(c.after, got); diff != "" || changed != c.changed {
				t.Errorf("changed %v (-want +got):\n%s", changed, diff)
			}
		})
	}
}

func TestVersionOf(t *testing.T) {
	ownedBy := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = kind }
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"WS-22 a Pod of a ReplicaSet", pod("p", ownedBy("ReplicaSet"), label("pod-template-hash", "67c9")), "67c9"},
		{"WS-22 the revision of a kind without the hash", pod("p", ownedBy("ReplicaSet"), label("controller-revision-hash", "web-8d4f")), "8d4f"},
		{"WS-22 the revision in its short form", pod("p", ownedBy("ReplicaSet"), label("controller-revision-hash", "8d4f")), "8d4f"},
		{"WS-22 neither", pod("p", ownedBy("ReplicaSet")), ignored},
		{"WS-22 a kind without versions", pod("p", label("pod-template-hash", "67c9")), ignored},
		{"WS-22 no owner", pod("p", func(p *corev1.Pod) { p.OwnerReferences = nil }), ignored},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := versionOf(c.pod, replicaSets); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func replicaSets(kind string) bool { return kind == "replicaset" }

func TestPlacesOfUnknownReplicas(t *testing.T) {
	for _, c := range []struct {
		name  string
		obj   *object
		wrong error
	}{
		{"WS-29 numbers need no replicas", spread(), nil},
		{"WS-29 percentages do", spread(maximums("30%", nil)), ReplicasUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := settled(t, c.obj).places(&status{}, nil); !errors.Is(err, c.wrong) {
				t.Errorf("error %v, want %v", err, c.wrong)
			}
		})
	}
}

func TestSumOf(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"n": int64(3), "big": int64(math.MaxInt32), "text": "3", "less": int64(-1), "groups": []any{map[string]any{"replicas": int64(1)}, map[string]any{"replicas": int64(4)}}}}
	for _, c := range []struct {
		name, paths string
		want        int64
		wrong       bool
	}{
		{"WS-29 a sum", "spec.n spec.groups.1.replicas", 7, false},
		{"WS-29 none", "", 0, false},
		{"WS 1.4 beyond a list", "spec.groups.2.replicas", 0, true},
		{"WS 1.4 before a list", "spec.groups.-1.replicas", 0, true},
		{"WS 1.4 no number of a list", "spec.groups.x.replicas", 0, true},
		{"WS-29 no integer", "spec.text", 0, true},
		{"WS-29 not there", "spec.n.m", 0, true},
		{"WS-29 below 0", "spec.less", 0, true},
		{"WS-29 as much as there can be", "spec.big spec.big", math.MaxInt32, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settled(t, spread(replicasAt(strings.Fields(c.paths)...)))
			if got, err := sumOf(object, s.paths); got != c.want || errors.Is(err, errNoInteger) != c.wrong {
				t.Errorf("%d, %v; want %d", got, err, c.want)
			}
		})
	}
}
