package disruption_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

var start = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))
}

func bound(text string) *intstr.IntOrString {
	v := intstr.Parse(text)
	return &v
}

func TestNeed(t *testing.T) {
	maxUnavailable := func(text string) disruption.Bounds { return disruption.Bounds{MaxUnavailable: bound(text)} }
	minAvailable := func(text string) disruption.Bounds { return disruption.Bounds{MinAvailable: bound(text)} }
	for _, tc := range []struct {
		name     string
		bounds   disruption.Bounds
		expected int32
		want     int32
		err      reason.Code
	}{
		{"PUB-8 max percentage rounds up", maxUnavailable("25%"), 10, 7, ""},
		{"PUB-8 max number", maxUnavailable("2"), 10, 8, ""},
		{"PUB-8 min percentage rounds up", minAvailable("25%"), 10, 3, ""},
		{"PUB-8 min number", minAvailable("6"), 10, 6, ""},
		{"PUB-8 one Pod, 10 %", maxUnavailable("10%"), 1, 0, ""},
		{"PUB-8 more may be away than there are", maxUnavailable("7"), 5, 0, ""},
		{"PUB-14 workload gone, max", maxUnavailable("10%"), 0, 0, ""},
		{"PUB-14 scaled from 100 to 50", maxUnavailable("10%"), 50, 45, ""},
		{"3.4 min number above what is expected", minAvailable("3"), 2, 2, ""},
		{"3.4 min number of a workload that was scaled to 0", minAvailable("3"), 0, 0, ""},
		{"3.4 nobody knows how many", maxUnavailable("1"), -1, 0, ""},
		{"neither", disruption.Bounds{}, 5, 5, disruption.InvalidBounds},
		{"both", disruption.Bounds{MaxUnavailable: bound("1"), MinAvailable: bound("1")}, 5, 5, disruption.InvalidBounds},
		{"junk", maxUnavailable("many"), 5, 5, partition.InvalidValue},
		{"junk", minAvailable("-1"), 5, 5, partition.InvalidValue},
		{"more than 100 %", minAvailable("101%"), 5, 5, partition.InvalidValue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.bounds.Need("spec", tc.expected)
			if got != tc.want || (tc.err == "") != (err == nil) || tc.err != "" && !errors.Is(err, tc.err) {
				t.Errorf("%d, %v; want %d, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// atLeast returns Bounds that require a number of Pods in service.
func atLeast(n int) disruption.Bounds { return disruption.Bounds{MinAvailable: new(intstr.FromInt(n))} }

// serving returns members that are in service, each an hour old.
func serving(names ...string) (out []disruption.Member) {
	for _, name := range names {
		out = append(out, disruption.Member{Name: name, Created: at(-3600), Serves: true})
	}
	return out
}

func TestCount(t *testing.T) {
	changing := disruption.Ledger{Changing: map[string]metav1.Time{"a": at(0)}, Identities: map[string]disruption.Identity{"a": {UID: "1", Generation: 3, Gated: true}}}
	open := disruption.Ledger{Changing: changing.Changing, Identities: map[string]disruption.Identity{"a": {UID: "1", Generation: 3}}}
	away := changing
	away.ObservedGeneration, away.Expected, away.Need = 1, 1, 1
	awayOpen := away
	awayOpen.Identities = open.Identities
	for _, tc := range []struct {
		name   string
		before disruption.Ledger
		census disruption.Census
		at     int
		want   disruption.Ledger
		stayed []string
		wait   time.Duration
	}{
		{
			name: "PUB-9 nobody was let go", census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(2), Members: serving("a", "b", "c")},
			want: disruption.Ledger{ObservedGeneration: 1, Expected: 3, Need: 2, Current: 3, Allowed: 1},
		},
		{
			name:   "PUB-9 one does not serve",
			census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(2), Members: append(serving("a", "b"), disruption.Member{Name: "c"})},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 3, Need: 2, Current: 2},
		},
		{
			name: "a name twice counts once, and numbers below zero are zero", census: disruption.Census{Expected: new(int32(-3)), Bounds: atLeast(0), Members: serving("a", "b", "a")},
			want: disruption.Ledger{ObservedGeneration: 1, Current: 2, Allowed: 2},
		},
		{
			name: "PUB-9 never below zero", census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(3), Members: serving("a")},
			want: disruption.Ledger{ObservedGeneration: 1, Expected: 3, Need: 3, Current: 1},
		},
		{
			name: "PUB-12 one that was let go is away until it is gone", at: 19,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}},
			census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(2), Members: serving("a", "b", "c")},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 3, Need: 2, Current: 2, Leaving: map[string]metav1.Time{"a": at(0)}},
			wait:   time.Second,
		},
		{
			name: "PUB-12 it stayed for 20 s", at: 20,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}},
			census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(2), Members: serving("a", "b", "c")},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 3, Need: 2, Current: 3, Allowed: 1},
			stayed: []string{"a"},
		},
		{
			name: "PUB-12 one that is gone is forgotten", at: 1,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}, Changing: map[string]metav1.Time{"x": at(0)}},
			census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(2), Members: serving("b", "c"), Gone: []string{"x", "a", "y"}},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 3, Need: 2, Current: 2},
		},
		{
			name: "one that is not seen may be newer than what is seen", at: 4,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0), "z": at(-1)}, Changing: map[string]metav1.Time{"x": at(1)}},
			census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(2), Members: serving("b", "c")},
			want: disruption.Ledger{
				ObservedGeneration: 1, Expected: 3, Need: 2, Current: 2, Leaving: map[string]metav1.Time{"a": at(0)}, Changing: map[string]metav1.Time{"x": at(1)},
			},
			wait: time.Second,
		},
		{
			name: "PUB-12 one that was changed counts again after 10 s", at: 10,
			before: disruption.Ledger{Changing: map[string]metav1.Time{"a": at(0), "b": at(4)}},
			census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(1), Members: serving("a", "b", "c")},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 3, Need: 1, Current: 2, Allowed: 1, Changing: map[string]metav1.Time{"b": at(4)}},
			wait:   4 * time.Second,
		},
		{
			name: "PUB-12 the first of several comes next", at: 5,
			before: disruption.Ledger{Changing: map[string]metav1.Time{"a": at(2)}, Leaving: map[string]metav1.Time{"b": at(0)}},
			census: disruption.Census{Expected: new(int32(3)), Bounds: atLeast(1), Members: serving("a", "b", "c")},
			want: disruption.Ledger{
				ObservedGeneration: 1, Expected: 3, Need: 1, Current: 1, Changing: map[string]metav1.Time{"a": at(2)}, Leaving: map[string]metav1.Time{"b": at(0)},
			},
			wait: 7 * time.Second,
		},
		{
			name: "3.4 a successor of the name serves", at: 5,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}},
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", Created: at(1), Serves: true}}},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 1, Need: 1, Current: 1},
		},
		{
			name: "3.4 created in the second in which the name was written down: it may be the same", at: 5,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}},
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", Created: at(0), Serves: true}}},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 1, Need: 1, Leaving: map[string]metav1.Time{"a": at(0)}},
			wait:   15 * time.Second,
		},
		{
			name: "a clock that is ahead holds a Pod no longer than one that is right", at: 0,
			before: disruption.Ledger{Changing: map[string]metav1.Time{"a": at(3)}},
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: serving("a")},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 1, Need: 1, Changing: map[string]metav1.Time{"a": at(3)}},
			wait:   10 * time.Second,
		},
		{
			name: "a time to come that somebody wrote holds nobody", at: 0,
			before: disruption.Ledger{Changing: map[string]metav1.Time{"a": at(3600)}},
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: serving("a")},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 1, Need: 1, Current: 1},
		},
		{
			name:   "something is needed again: who was let go before is not written down, and may still be shown",
			before: disruption.Ledger{ObservedGeneration: 1, Expected: 2, Current: 2, Allowed: 2},
			census: disruption.Census{Expected: new(int32(2)), Bounds: atLeast(1), Members: serving("a", "b")},
			at:     5,
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 2, Need: 1, Current: 2, NeededSince: new(at(5))},
			wait:   20 * time.Second,
		},
		{
			name:   "for as long as they may be shown",
			before: disruption.Ledger{ObservedGeneration: 1, Expected: 2, Need: 1, Current: 2, NeededSince: new(at(0))},
			census: disruption.Census{Expected: new(int32(2)), Bounds: atLeast(1), Members: serving("a", "b")},
			at:     5,
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 2, Need: 1, Current: 2, NeededSince: new(at(0))},
			wait:   15 * time.Second,
		},
		{
			name:   "and by now they would be gone",
			before: disruption.Ledger{ObservedGeneration: 1, Expected: 2, Need: 1, Current: 2, NeededSince: new(at(0))},
			census: disruption.Census{Expected: new(int32(2)), Bounds: atLeast(1), Members: serving("a", "b")},
			at:     20,
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 2, Need: 1, Current: 2, Allowed: 1},
		},
		{
			name:   "a new budget: nobody was let go before its first count",
			census: disruption.Census{Expected: new(int32(2)), Bounds: atLeast(1), Members: serving("a", "b")},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 2, Need: 1, Current: 2, Allowed: 1},
		},
		{
			name:   "something is needed of new Pods: none has served, so none was let go",
			before: disruption.Ledger{ObservedGeneration: 1},
			census: disruption.Census{Expected: new(int32(2)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", Created: at(0)}}},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 2, Need: 1},
		},
		{
			name: "a successor of the name, created in the second in which the name was written down", at: 1,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}, Identities: map[string]disruption.Identity{"a": {UID: "1", Created: at(-9)}}},
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "2", Created: at(0), Serves: true}}},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 1, Need: 1, Current: 1},
		},
		{
			name: "a view from before the Pod that was let go", at: 1,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}, Identities: map[string]disruption.Identity{"a": {UID: "2", Created: at(-9)}}},
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "1", Created: at(-99), Serves: true}}},
			want: disruption.Ledger{
				ObservedGeneration: 1, Expected: 1, Need: 1, Leaving: map[string]metav1.Time{"a": at(0)}, Identities: map[string]disruption.Identity{"a": {UID: "2", Created: at(-9)}},
			},
			wait: 19 * time.Second,
		},
		{
			name: "the same Pod with a clock ahead", at: 1,
			before: disruption.Ledger{Leaving: map[string]metav1.Time{"a": at(0)}, Identities: map[string]disruption.Identity{"a": {UID: "1"}, "gone": {UID: "7"}}},
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "1", Created: at(2), Serves: true}}},
			want: disruption.Ledger{
				ObservedGeneration: 1, Expected: 1, Need: 1, Leaving: map[string]metav1.Time{"a": at(0)}, Identities: map[string]disruption.Identity{"a": {UID: "1"}},
			},
			wait: 19 * time.Second,
		},
		{
			name: "one that was changed has changed and serves again", at: 1, before: changing,
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "1", Generation: 4, Serves: true, Settled: true}}},
			want:   disruption.Ledger{ObservedGeneration: 1, Expected: 1, Need: 1, Current: 1},
		},
		{
			name: "one that somebody has changed without its gate has not told its Node yet", at: 1, before: open,
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "1", Generation: 4, Serves: true, Settled: true}}},
			want:   awayOpen, wait: 9 * time.Second,
		},
		{
			name: "one that is to be changed has not", at: 1, before: changing,
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "1", Generation: 3, Serves: true, Settled: true}}},
			want:   away, wait: 9 * time.Second,
		},
		{
			name: "one that has changed, as far as it tells", at: 1, before: changing,
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "1", Generation: 4, Serves: true}}},
			want:   away, wait: 9 * time.Second,
		},
		{
			name: "one that has changed and does not serve", at: 1, before: changing,
			census: disruption.Census{Expected: new(int32(1)), Bounds: atLeast(1), Members: []disruption.Member{{Name: "a", UID: "1", Generation: 4, Settled: true}}},
			want:   away, wait: 9 * time.Second,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			given := fmt.Sprint(tc.before)
			tc.census.Generation = 1
			got, err := disruption.Policy{}.Count(tc.before, tc.census, at(tc.at).Time)
			if diff := cmp.Diff(disruption.Count{Ledger: tc.want, Stayed: tc.stayed, Wait: tc.wait}, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if fmt.Sprint(tc.before) != given {
				t.Errorf("the ledger before was written to: %v", tc.before)
			}
		})
	}
}

// count returns the ledger of a count.
func count(t *testing.T, p disruption.Policy, before disruption.Ledger, census disruption.Census, now time.Time) disruption.Ledger {
	t.Helper()
	census.Generation = 1
	out, err := p.Count(before, census, now)
	if err != nil {
		t.Fatal(err)
	}
	return out.Ledger
}

// TestCountForgotten: if a census lacks its generation, number of Pods or bounds, Count returns an error, and the
// ledger admits no request.
func TestCountForgotten(t *testing.T) {
	members := serving("a", "b")
	for _, tc := range []struct {
		name   string
		census disruption.Census
		code   reason.Code
	}{
		{"the generation", disruption.Census{Expected: new(int32(2)), Bounds: atLeast(1), Members: members}, disruption.NoGeneration},
		{"the bounds", disruption.Census{Generation: 1, Expected: new(int32(2)), Members: members}, disruption.InvalidBounds},
		{"the bounds of more Pods than expected", disruption.Census{Generation: 1, Members: members}, disruption.InvalidBounds},
		{"the number of Pods", disruption.Census{Generation: 1, Bounds: atLeast(1), Members: members}, disruption.NoExpectation},
	} {
		got, err := disruption.Policy{}.Count(disruption.Ledger{}, tc.census, start)
		if !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.code)
		}
		if _, decision := (disruption.Policy{}).Decide(got.Ledger, disruption.Request{Pod: pod("a", -9), Operation: disruption.Evict, Generation: 1}, start); decision.Admitted {
			t.Errorf("%s: %+v", tc.name, decision)
		}
	}
}

// TestIdentity: an entry belongs to the Pod with the recorded UID, in the recorded generation.
func TestIdentity(t *testing.T) {
	ledger := disruption.Ledger{
		ObservedGeneration: 1, Expected: 2, Need: 1, Current: 1,
		Changing: map[string]metav1.Time{"a": at(0)}, Identities: map[string]disruption.Identity{"a": {UID: "1", Created: at(-9), Generation: 3}},
	}
	for _, tc := range []struct {
		name       string
		uid        types.UID
		generation int64
		code       reason.Code
		changed    bool
	}{
		{"the same Pod, created in the second of the entry", "1", 3, disruption.LetGoAlready, false},
		{"the same Pod, changed since: the entry must not end with the earlier change", "1", 4, disruption.LetGoAlready, true},
		{"a successor", "2", 3, disruption.BudgetSpent, false},
		{"a Pod without UID", "", 3, disruption.BudgetSpent, false},
	} {
		p := pod("a", 0)
		p.UID, p.Generation = tc.uid, tc.generation
		after, decision := disruption.Policy{}.Decide(ledger, disruption.Request{Pod: p, Operation: disruption.Update, Generation: 1}, start)
		if decision.Reason.Code != tc.code || decision.Changed != tc.changed {
			t.Errorf("%s: %+v", tc.name, decision)
		}
		if want := (disruption.Identity{UID: tc.uid, Created: p.CreationTimestamp, Generation: tc.generation}); decision.Changed && after.Identities["a"] != want {
			t.Errorf("%s: %+v", tc.name, after)
		}
	}
}

// TestLedgerJSON: a ledger is unchanged after encoding and decoding, and a copy shares no map with the ledger.
func TestLedgerJSON(t *testing.T) {
	ledger := disruption.Ledger{
		ObservedGeneration: 2, Expected: 3, Need: 2, Current: 3, Allowed: 1, NeededSince: new(at(1)),
		Leaving: map[string]metav1.Time{"a": at(0)}, Changing: map[string]metav1.Time{"b": at(1)}, Identities: map[string]disruption.Identity{"a": {UID: "1", Generation: 3}},
	}
	raw, err := json.Marshal(ledger)
	if err != nil {
		t.Fatal(err)
	}
	var back disruption.Ledger
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ledger, back); diff != "" {
		t.Errorf("%s (-want +got):\n%s", raw, diff)
	}
	copied := ledger.DeepCopy()
	copied.Leaving["x"], copied.Changing["x"], copied.Identities["x"] = at(0), at(0), disruption.Identity{}
	copied.NeededSince.Time = start
	if diff := cmp.Diff(back, ledger); diff != "" {
		t.Errorf("the copy shares (-want +got):\n%s", diff)
	}
	if raw, err = json.Marshal(disruption.Ledger{}); err != nil || string(raw) != `{"expected":0,"need":0,"current":0,"allowed":0}` {
		t.Errorf("%s, %v", raw, err)
	}
}

func pod(name string, created int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at(created)}}
}

// TestForgotten: a request with a missing field is refused.
func TestForgotten(t *testing.T) {
	ledger := disruption.Ledger{ObservedGeneration: 1, Current: 2, Need: 2, Expected: 2, Leaving: map[string]metav1.Time{"": at(0), "a": at(0)}}
	for _, tc := range []struct {
		name    string
		request disruption.Request
		code    reason.Code
	}{
		{name: "everything", code: disruption.NoPod},
		{name: "the Pod", request: disruption.Request{Operation: disruption.Evict}, code: disruption.NoPod},
		{name: "the Pod's name", request: disruption.Request{Pod: &corev1.Pod{}, Operation: disruption.Evict}, code: disruption.NoPod},
		{name: "when the Pod was created", request: disruption.Request{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, Operation: disruption.Evict}, code: disruption.BudgetSpent},
		{name: "the operation", request: disruption.Request{Pod: pod("a", 0)}, code: disruption.UnknownOperation},
		{name: "whether it serves", request: disruption.Request{Pod: pod("b", 0), Operation: disruption.Evict}, code: disruption.BudgetSpent},
		{name: "the generation", request: disruption.Request{Pod: pod("b", 0), Operation: disruption.Evict, Generation: -1}, code: disruption.NoGeneration},
	} {
		tc.request.Generation++
		if got, decision := (disruption.Policy{}).Decide(ledger, tc.request, at(0).Time); decision.Admitted || decision.Changed || decision.Reason.Code != tc.code || !cmp.Equal(ledger, got) {
			t.Errorf("%s: %+v, want %s", tc.name, decision, tc.code)
		}
	}
}

func TestDecide(t *testing.T) {
	counted := func(edit func(*disruption.Ledger)) disruption.Ledger {
		l := disruption.Ledger{ObservedGeneration: 1, Expected: 5, Need: 4, Current: 5, Allowed: 1}
		if edit != nil {
			edit(&l)
		}
		return l
	}
	leaving := func(l *disruption.Ledger) { l.Allowed, l.Leaving = 0, map[string]metav1.Time{"a": at(0)} }
	changing := func(l *disruption.Ledger) { l.Allowed, l.Changing = 0, map[string]metav1.Time{"a": at(0)} }
	for _, tc := range []struct {
		name     string
		ledger   disruption.Ledger
		op       disruption.Operation
		created  int
		idle     bool
		at       int
		admitted bool
		code     reason.Code
		want     *disruption.Ledger // nil if unchanged
	}{
		{name: "PUB-20 eviction", ledger: counted(nil), op: disruption.Evict, created: -60, admitted: true, want: new(counted(leaving))},
		{name: "PUB-20 deletion", ledger: counted(nil), op: disruption.Delete, created: -60, admitted: true, want: new(counted(leaving))},
		{name: "PUB-20 update", ledger: counted(nil), op: disruption.Update, created: -60, admitted: true, want: new(counted(changing))},
		{name: "3.4 a resize changes a Pod and does not delete it", ledger: counted(nil), op: disruption.Resize, created: -60, admitted: true, want: new(counted(changing))},
		{name: "PUB-20 nothing is left", ledger: counted(func(l *disruption.Ledger) { l.Allowed = 0 }), op: disruption.Evict, created: -60, code: disruption.BudgetSpent},
		{name: "a hand wrote less than nothing", ledger: counted(func(l *disruption.Ledger) { l.Allowed = -3 }), op: disruption.Evict, created: -60, code: disruption.BudgetSpent},
		{name: "PUB-19 it does not serve", ledger: counted(func(l *disruption.Ledger) { l.Allowed = 0 }), op: disruption.Delete, idle: true, admitted: true, code: disruption.NotServing},
		{name: "PUB-19 nobody has to serve", ledger: counted(func(l *disruption.Ledger) { l.Allowed, l.Need = 0, 0 }), op: disruption.Delete, admitted: true, code: disruption.NothingNeeded},
		{name: "PUB-19 it was let go just now: nothing to write", ledger: counted(leaving), op: disruption.Evict, created: -60, at: 1, admitted: true, code: disruption.LetGoAlready},
		{name: "PUB-19 it was let go to be changed just now", ledger: counted(changing), op: disruption.Resize, created: -60, at: 0, admitted: true, code: disruption.LetGoAlready},
		{name: "PUB-19 it was let go, and has half of its time", ledger: counted(leaving), op: disruption.Evict, created: -60, at: 9, admitted: true, code: disruption.LetGoAlready},
		{name: "PUB-19 it was let go, and is still there", ledger: counted(func(l *disruption.Ledger) { leaving(l); l.Allowed = 1 }), op: disruption.Evict, created: -60, at: 19, admitted: true, code: disruption.LetGoAlready, want: new(counted(func(l *disruption.Ledger) {
			l.Allowed, l.Leaving = 1, map[string]metav1.Time{"a": at(19)}
		}))},
		{name: "it was let go, is still there, and nothing is left for others", ledger: counted(leaving), op: disruption.Evict, created: -60, at: 10, code: disruption.BudgetSpent},
		{name: "it was let go to be deleted, and is changed", ledger: counted(leaving), op: disruption.Update, created: -60, at: 19, admitted: true, code: disruption.LetGoAlready, want: new(counted(func(l *disruption.Ledger) {
			l.Allowed, l.Changing, l.Leaving = 0, map[string]metav1.Time{"a": at(19)}, map[string]metav1.Time{"a": at(0)}
		}))},
		{name: "PUB-19 it was let go to be changed, and is deleted", ledger: counted(changing), op: disruption.Delete, created: -60, at: 9, admitted: true, code: disruption.LetGoAlready, want: new(counted(func(l *disruption.Ledger) {
			l.Allowed, l.Changing, l.Leaving = 0, map[string]metav1.Time{"a": at(0)}, map[string]metav1.Time{"a": at(9)}
		}))},
		{name: "it was let go to be changed, is changed again, and as many serve as must", ledger: counted(func(l *disruption.Ledger) { changing(l); l.Current = 4 }), op: disruption.Update, created: -60, at: 5, admitted: true, code: disruption.LetGoAlready, want: new(counted(func(l *disruption.Ledger) {
			l.Allowed, l.Current, l.Changing = 0, 4, map[string]metav1.Time{"a": at(5)}
		}))},
		{name: "it was let go to be changed, may serve again, and too few others serve", ledger: counted(func(l *disruption.Ledger) { changing(l); l.Current = 3 }), op: disruption.Update, created: -60, at: 5, code: disruption.BudgetSpent},
		{name: "PUB-19 its time is over", ledger: counted(leaving), op: disruption.Evict, created: -60, at: 20, code: disruption.BudgetSpent},
		{name: "3.4 a successor of the name", ledger: counted(leaving), op: disruption.Evict, created: 5, at: 6, code: disruption.BudgetSpent},
		{name: "3.4 created in the second in which the name was written down: it may be a successor", ledger: counted(leaving), op: disruption.Evict, at: 6, code: disruption.BudgetSpent},
		{name: "3.4 before the first count", ledger: disruption.Ledger{}, op: disruption.Evict, code: disruption.NotCounted},
		{name: "3.4 before the first count, though it was counted before the spec changed", ledger: counted(func(l *disruption.Ledger) { l.ObservedGeneration = 0 }), op: disruption.Evict, code: disruption.NotCounted},
		{name: "3.4 before the first count, and it does not serve", ledger: disruption.Ledger{}, op: disruption.Evict, idle: true, admitted: true, code: disruption.NotServing},
		{name: "an operation that nobody knows", ledger: counted(nil), op: "MOVE", idle: true, code: disruption.UnknownOperation},
	} {
		t.Run(tc.name, func(t *testing.T) {
			given := fmt.Sprint(tc.ledger)
			p := pod("a", tc.created)
			got, decision := disruption.Policy{}.Decide(tc.ledger, disruption.Request{Pod: p, Generation: 1, Operation: tc.op, OutOfService: tc.idle}, at(tc.at).Add(300*time.Millisecond))
			if decision.Admitted != tc.admitted || decision.Reason.Code != tc.code || decision.Changed != (tc.want != nil) {
				t.Errorf("%+v; want admitted %t, code %q", decision, tc.admitted, tc.code)
			}
			want := tc.ledger
			if tc.want != nil {
				want = *tc.want
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if fmt.Sprint(tc.ledger) != given {
				t.Errorf("the ledger before was written to: %v", tc.ledger)
			}
		})
	}
}

// TestMaxEntries: a request is refused if the ledger has MaxEntries entries.
func TestMaxEntries(t *testing.T) {
	ledger := disruption.Ledger{ObservedGeneration: 1, Expected: 9, Need: 1, Current: 9, Allowed: 8}
	policy := disruption.Policy{MaxEntries: 3}
	for i := range 5 {
		var decision disruption.Decision
		op := disruption.Update
		if i == 1 {
			op = disruption.Evict
		}
		ledger, decision = policy.Decide(ledger, disruption.Request{Pod: pod(fmt.Sprint(i), -9), Generation: 1, Operation: op}, start)
		if want := i < 3; decision.Admitted != want || !want && !errors.Is(decision.Reason, disruption.TooManyLetGo) {
			t.Errorf("PUB-20 Pod %d: %+v", i, decision)
		}
	}
}

// TestWorkedRuns: several evictions with a count in between, and an update to an image that never starts.
func TestWorkedRuns(t *testing.T) {
	var policy disruption.Policy
	ask := func(l *disruption.Ledger, name string, op disruption.Operation, serves bool, second int) bool {
		var decision disruption.Decision
		*l, decision = policy.Decide(*l, disruption.Request{Pod: pod(name, -60), Generation: 1, Operation: op, OutOfService: !serves}, at(second).Time)
		return decision.Admitted
	}
	l := count(t, policy, disruption.Ledger{}, disruption.Census{Expected: new(int32(5)), Bounds: atLeast(4), Members: serving("1", "2", "3", "4", "5")}, start)
	if !ask(&l, "1", disruption.Evict, true, 0) || l.Allowed != 0 || ask(&l, "2", disruption.Evict, true, 1) {
		t.Errorf("PUB-26 after two evictions: %+v", l)
	}
	if l = count(t, policy, l, disruption.Census{Expected: new(int32(5)), Bounds: atLeast(4), Members: serving("2", "3", "4", "5", "6")}, at(3).Time); l.Allowed != 1 {
		t.Errorf("PUB-26 when a successor serves: %+v", l)
	}
	before := l
	if !ask(&l, "7", disruption.Delete, false, 4) || !cmp.Equal(before, l) {
		t.Errorf("PUB-26 a Pod that does not serve: %+v", l)
	}

	names := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	l = count(t, policy, disruption.Ledger{}, disruption.Census{Expected: new(int32(10)), Bounds: atLeast(8), Members: serving(names...)}, start)
	admitted := 0
	for second := range 60 {
		members := serving(names...)
		for i := range admitted {
			members[i].Serves = second < 1 // a container with the new image never starts
		}
		l = count(t, policy, l, disruption.Census{Expected: new(int32(10)), Bounds: atLeast(8), Members: members}, at(second).Time)
		if next := names[admitted]; ask(&l, next, disruption.Update, true, second) {
			admitted++
		}
	}
	if admitted != 2 {
		t.Errorf("PUB-27 %d Pods were updated, want 2", admitted)
	}
}

// TestRefusedByOthers: the webhook admits an eviction that a PodDisruptionBudget then refuses, and kubectl drain
// retries every 5 s. The retries do not keep the budget spent: within twice LeavingFor, another Pod can be evicted.
func TestRefusedByOthers(t *testing.T) {
	census := disruption.Census{Expected: new(int32(3)), Bounds: atLeast(2), Members: serving("a", "b", "c")}
	policy, now := disruption.Policy{}, start
	ledger := count(t, policy, disruption.Ledger{}, census, now)
	for tenth := range 400 {
		ledger = count(t, policy, ledger, census, now)
		var decision disruption.Decision
		if tenth%53 == 0 {
			ledger, _ = policy.Decide(ledger, disruption.Request{Pod: pod("a", -3600), Generation: 1, Operation: disruption.Evict}, now)
		}
		if tenth%10 == 0 {
			if ledger, decision = policy.Decide(ledger, disruption.Request{Pod: pod("b", -3600), Generation: 1, Operation: disruption.Update}, now); decision.Admitted {
				return
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	t.Error("all Pods have served all the while, one may be away, and nobody else was let go")
}

func TestOperationOf(t *testing.T) {
	sized := func(cpu, memory string, more ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
		}}}}}
		for _, edit := range more {
			edit(p)
		}
		return p
	}
	restarts := func(name corev1.ResourceName) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: corev1.RestartContainer}}
		}
	}
	podLimit := func(memory string, more ...func(*corev1.Pod)) *corev1.Pod {
		return sized("1", "1Gi", append(more, func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(memory)}}
		})...)
	}
	own := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
	}
	for _, tc := range []struct {
		name          string
		before, after *corev1.Pod
		want          disruption.Operation
	}{
		{"PUB-17 metadata and status", sized("1", "1Gi"), sized("1", "1Gi", func(p *corev1.Pod) { p.Labels, p.Status.Phase = map[string]string{"a": "b"}, corev1.PodRunning }), ""},
		{"PUB-17 another spelling", sized("1", "1Gi"), sized("1000m", "1024Mi"), ""},
		{"PUB-18 image", sized("1", "1Gi"), sized("1", "1Gi", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:v2" }), disruption.Update},
		{"PUB-18 cpu", sized("1", "1Gi"), sized("2", "1Gi"), disruption.Resize},
		{"PUB-18 memory that restarts", sized("1", "1Gi", restarts("memory")), sized("1", "2Gi", restarts("memory")), disruption.Update},
		{"PUB-18 cpu where memory restarts", sized("1", "1Gi", restarts("memory")), sized("2", "1Gi", restarts("memory")), disruption.Resize},
		{"PUB-18 cpu and an image", sized("1", "1Gi"), sized("2", "1Gi", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:v2" }), disruption.Update},
		{"PUB-18 another resource", sized("1", "1Gi"), sized("1", "1Gi", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.test/gpu": resource.MustParse("1")}
		}), disruption.Update},
		{"PUB-18 those of the whole Pod", sized("1", "1Gi"), sized("1", "1Gi", func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("4")}}
		}), disruption.Resize},
		{"PUB-18 the whole Pod's limit, which is that of a container that restarts", podLimit("1Gi", restarts("memory")), podLimit("2Gi", restarts("memory")), disruption.Update},
		{"PUB-18 the whole Pod's limit, where the container has its own", podLimit("1Gi", restarts("memory"), own), podLimit("2Gi", restarts("memory"), own), disruption.Resize},
		{"PUB-18 the whole Pod's limit of what does not restart", podLimit("1Gi", restarts("cpu")), podLimit("2Gi", restarts("cpu")), disruption.Resize},
		{"PUB-18 deadline", sized("1", "1Gi"), sized("1", "1Gi", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }), disruption.Update},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := tc.before.DeepCopy(), tc.after.DeepCopy()
			got, ok := disruption.OperationOf(tc.before, tc.after)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("%q, %t; want %q", got, ok, tc.want)
			}
			if !cmp.Equal(before, tc.before) || !cmp.Equal(after, tc.after) {
				t.Error("a Pod was written to")
			}
		})
	}
}
