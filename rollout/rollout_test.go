package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// all returns a group of available Pods.
func all(total int) rollout.Group { return rollout.Group{Total: total} }

func unavailable(total, n int) rollout.Group { return rollout.Group{Total: total, Unavailable: n} }

func specified(total, n int) rollout.Group { return rollout.Group{Total: total, Specified: n} }

func dying(total, n int) rollout.Group { return rollout.Group{Total: total, PreDeleting: n} }

func counts(old, updated rollout.Group) rollout.Counts { return rollout.Counts{Old: old, New: updated} }

// spec returns a Spec without surge Pods and without ScaleMaxUnavailable.
func spec(replicas, partition, maxUnavailable int) rollout.Spec {
	return rollout.Spec{Replicas: replicas, Partition: partition, MaxUnavailable: maxUnavailable}
}

func (w with) of(s rollout.Spec) rollout.Spec { w(&s); return s }

type with func(*rollout.Spec)

func surge(n int) with         { return func(s *rollout.Spec) { s.MaxSurge = n } }
func scaleLimit(n int) with    { return func(s *rollout.Spec) { s.ScaleMaxUnavailable = &n } }
func rollback(s *rollout.Spec) { s.Rollback = true }

func both(a, b with) with { return func(s *rollout.Spec) { a(s); b(s) } }

func oneRevision(s *rollout.Spec) { s.OneRevision = true }
func inPlace(s *rollout.Spec)     { s.InPlace = true }
func exclude(s *rollout.Spec)     { s.ExcludePreDeleting = true }

func Example() {
	// All 10 Pods are at the old revision, and the partition keeps 4 of the Pods at this revision. One Pod has
	// crashed.
	pods := []bool{false, true, true, true, true, true, true, true, true, true} // available, in update order
	var counts rollout.Counts
	for _, available := range pods {
		counts.Add(false, available)
	}
	step := rollout.Plan(rollout.Spec{Replicas: 10, Partition: 4, MaxUnavailable: 2}, counts)
	fmt.Println("update", step.Candidates, "with a budget of", step.UpdateUnavailable)

	now := rollout.ToUpdate(step, counts, pods, func(available bool) bool { return available })
	fmt.Println("now those of which available is", now)
	// Output:
	// update 6 with a budget of 2
	// now those of which available is [false true]
}

func ExamplePlan_limits() {
	step := rollout.Plan(
		rollout.Spec{Replicas: 6, ScaleMaxUnavailable: new(2)},
		rollout.Counts{New: rollout.Group{Total: 3, Unavailable: 1}},
	)
	fmt.Println("create", step.Create)
	fmt.Println(step.Limits)
	// Output:
	// create 1
	// ScaleUpLimited: scaleStrategy.maxUnavailable: 1 of 3 missing Pods are created now; 1 are unavailable, 2 may be; wait for Pods to become available, or raise the limit
}

func TestCreate(t *testing.T) {
	type answer struct{ Create, CreateOld int }
	for _, tc := range []struct {
		name string
		spec rollout.Spec
		have rollout.Counts
		want answer
	}{
		{"C-10 replicas 5 to 10, partition 4, 2 old 3 new", spec(10, 4, 2), counts(all(2), all(3)), answer{5, 2}},
		{"C-10 the partition has its Pods", spec(10, 4, 2), counts(all(4), all(3)), answer{3, 0}},
		{"C-10 more old than the partition keeps", spec(10, 4, 2), counts(all(8), all(0)), answer{2, 0}},
		{"C-10 fewer missing than the partition lacks", spec(10, 8, 2), counts(all(2), all(6)), answer{2, 2}},
		{"C-11 one revision, whatever the partition", with(oneRevision).of(spec(10, 4, 2)), counts(all(0), all(3)), answer{7, 0}},
		{"C-14 surge comes on top", surge(2).of(spec(5, 0, 1)), counts(all(5), all(0)), answer{2, 0}},
		{"C-14 old surge Pods are old", both(rollback, surge(1)).of(spec(5, 4, 1)), counts(all(1), all(4)), answer{1, 1}},
		{"C-15 3 to 6, limit 2, one unavailable", scaleLimit(2).of(spec(6, 0, 2)), counts(all(0), unavailable(3, 1)), answer{1, 0}},
		{"C-15 as many unavailable as may be", scaleLimit(2).of(spec(6, 0, 2)), counts(all(0), unavailable(3, 2)), answer{0, 0}},
		{"C-15 more unavailable than may be", scaleLimit(2).of(spec(6, 0, 2)), counts(unavailable(3, 3), all(0)), answer{0, 0}},
		{"C-15 Pods waiting for their hook are unavailable", scaleLimit(2).of(spec(6, 0, 2)), counts(all(0), dying(3, 1)), answer{1, 0}},
		{"C-15 limit wide enough", scaleLimit(9).of(spec(6, 0, 2)), counts(all(0), unavailable(3, 1)), answer{3, 0}},
		{"C-15 the limit cuts new Pods before old ones", scaleLimit(2).of(spec(10, 4, 2)), counts(all(3), all(3)), answer{2, 1}},
		{"C-16 no Pod is missing", spec(5, 0, 1), counts(all(2), all(3)), answer{0, 0}},
		{"C-30 a dying Pod counts until it is gone", spec(3, 0, 1), counts(all(0), dying(3, 1)), answer{0, 0}},
		{"C-30 excluded, its replacement is created at once", with(exclude).of(spec(3, 0, 1)), counts(all(0), dying(3, 1)), answer{1, 0}},
		{"C-30 excluded, an old one is replaced by an old one", with(exclude).of(spec(3, 2, 1)), counts(dying(2, 1), all(1)), answer{1, 1}},
		{"P-2 nothing wanted, nothing there", spec(0, 0, 0), counts(all(0), all(0)), answer{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rollout.Plan(tc.spec, tc.have)
			if diff := cmp.Diff(tc.want, answer{got.Create, got.CreateOld}); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	type answer struct{ Delete, DeleteOld, DeleteReady int }
	for _, tc := range []struct {
		name string
		spec rollout.Spec
		have rollout.Counts
		want answer
	}{
		{"C-16 10 to 6, partition 4, 5 old 5 new", spec(6, 4, 1), counts(all(5), all(5)), answer{4, 1, 5}},
		{"C-16 old ones above the partition go first", spec(6, 2, 0), counts(all(6), all(2)), answer{2, 2, 2}},
		{"C-16 specified Pods go instead of others", spec(6, 0, 0), counts(all(0), specified(8, 1)), answer{1, 0, 2}},
		{"C-16 enough are specified", spec(6, 0, 0), counts(all(0), specified(8, 3)), answer{0, 0, 2}},
		{"C-16 specified old ones count for the old part", spec(6, 2, 0), counts(specified(3, 1), all(5)), answer{1, 0, 2}},
		{"C-17 two specified, all ready, maxUnavailable 1", spec(5, 0, 1), counts(all(0), specified(5, 2)), answer{0, 0, 1}},
		{"C-17 the second waits for the replacement", spec(5, 0, 1), counts(all(0), rollout.Group{Total: 5, Specified: 1, Unavailable: 1}), answer{0, 0, 0}},
		{"C-17 unavailable Pods use the budget up", spec(5, 0, 2), counts(unavailable(2, 2), unavailable(3, 1)), answer{0, 0, 0}},
		{"C-17 so do Pods that wait for their hook", spec(5, 0, 2), counts(dying(2, 1), all(3)), answer{0, 0, 1}},
		{
			"C-17 a specified Pod that does not serve uses it up too", spec(5, 0, 1),
			counts(all(0), rollout.Group{Total: 5, Specified: 2, SpecifiedUnavailable: 1}),
			answer{0, 0, 0},
		},
		{"C-21 no budget, but what is too many can go", spec(3, 0, 0), counts(all(3), all(2)), answer{2, 2, 2}},
		{"C-22 5 to 3 with 3 old and 2 new", spec(3, 0, 0), counts(all(3), all(2)), answer{2, 2, 2}},
		{"C-30 a dying Pod is not deleted a second time", with(exclude).of(spec(2, 0, 1)), counts(all(0), dying(3, 1)), answer{0, 0, 1}},
		{"scale to nothing", spec(0, 0, 0), counts(all(3), all(2)), answer{5, 3, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rollout.Plan(tc.spec, tc.have)
			if diff := cmp.Diff(tc.want, answer{got.Delete, got.DeleteOld, got.DeleteReady}); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	type answer struct{ Update, UpdateUnavailable, UpdateAtTarget int }
	for _, tc := range []struct {
		name string
		spec rollout.Spec
		have rollout.Counts
		want answer
	}{
		{"C-19 all old", spec(10, 4, 2), counts(all(10), all(0)), answer{6, 2, 2}},
		{"C-19 partition reached", spec(10, 4, 2), counts(all(4), all(6)), answer{0, 2, 2}},
		{"C-19 Pods beyond replicas widen the budget", surge(1).of(spec(5, 3, 1)), counts(all(5), all(1)), answer{1, 2, 2}},
		{"C-19 missing Pods narrow it", spec(5, 0, 2), counts(all(4), all(0)), answer{4, 1, 2}},
		{"C-19 many missing Pods leave none", spec(5, 0, 2), counts(all(1), all(0)), answer{1, 0, 2}},
		{"C-12 the partition grew: nothing without the gate", spec(5, 4, 1), counts(all(1), all(4)), answer{0, 1, 1}},
		{"C-48 the partition grew: back with the gate", with(rollback).of(spec(5, 4, 1)), counts(all(1), all(4)), answer{-3, 1, 1}},
		{"C-48 one revision is never taken back", both(rollback, oneRevision).of(spec(5, 4, 1)), counts(all(1), all(4)), answer{0, 1, 1}},
		{"C-19 both revisions lack Pods: nothing to exchange", with(rollback).of(spec(10, 5, 1)), counts(all(3), all(4)), answer{0, 0, 1}},
		{"C-19 both have too many: nothing to exchange", with(rollback).of(spec(10, 5, 1)), counts(all(7), all(6)), answer{0, 4, 4}},
		{"C-12 dying old Pods need no update", spec(5, 0, 1), counts(dying(3, 1), all(2)), answer{2, 1, 1}},
		{"C-19 too many Pods in all: the smaller difference counts", spec(5, 2, 1), counts(all(5), all(2)), answer{1, 3, 3}},
		{"C-60 no Pods", spec(5, 0, 1), counts(all(0), all(0)), answer{0, 0, 1}},
		{"C-63 a scale limit and a broken first image", scaleLimit(2).of(spec(10, 0, 2)), counts(unavailable(2, 2), all(0)), answer{2, 0, 2}},
		{"C-63 missing Pods and nothing that may be unavailable", both(surge(1), scaleLimit(1)).of(spec(3, 0, 0)), counts(unavailable(3, 3), all(0)), answer{3, 0, 1}},
		{"specified Pods are as good as gone", surge(1).of(spec(5, 4, 1)), counts(rollout.Group{Total: 5, Specified: 1, Unavailable: 3}, all(0)), answer{0, 1, 1}},
		{"specified Pods above the partition: the others are enough", spec(5, 2, 1), counts(specified(5, 2), all(0)), answer{1, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rollout.Plan(tc.spec, tc.have)
			update := got.Candidates // negative if Back is set
			if got.Back {
				update = -update
			}
			if diff := cmp.Diff(tc.want, answer{update, got.UpdateUnavailable, got.UpdateAtTarget}); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSurge(t *testing.T) {
	type answer struct{ Surge, SurgeOld int }
	for _, tc := range []struct {
		name string
		spec rollout.Spec
		have rollout.Counts
		want answer
	}{
		{"C-13 for an update, capped", surge(2).of(spec(10, 4, 1)), counts(all(10), all(0)), answer{2, 0}},
		{"C-13 for an update, fewer are left", surge(3).of(spec(10, 4, 1)), counts(all(5), all(5)), answer{1, 0}},
		{"C-13 nothing to update", surge(3).of(spec(10, 4, 1)), counts(all(4), all(6)), answer{0, 0}},
		{"C-13 both revisions have enough", surge(3).of(spec(5, 2, 1)), counts(all(4), all(3)), answer{0, 0}},
		{"C-13 for a rollback: old ones", both(rollback, surge(2)).of(spec(5, 4, 1)), counts(all(1), all(4)), answer{2, 2}},
		{"C-13 without the gate none", surge(2).of(spec(5, 4, 1)), counts(all(1), all(4)), answer{0, 0}},
		{"C-13 for specified Pods beyond the budget", surge(3).of(spec(5, 0, 1)), counts(all(0), specified(5, 3)), answer{2, 0}},
		{"C-13 specified Pods within the budget", surge(3).of(spec(5, 0, 1)), counts(all(0), specified(5, 1)), answer{0, 0}},
		{"C-13 unavailable Pods use the budget up", surge(3).of(spec(5, 0, 1)), counts(all(0), rollout.Group{Total: 5, Specified: 1, Unavailable: 1}), answer{1, 0}},
		{"C-13 never more than are specified", surge(3).of(spec(5, 0, 1)), counts(all(0), rollout.Group{Total: 5, Specified: 1, Unavailable: 4}), answer{1, 0}},
		{"C-13 for specified old ones: old ones", surge(2).of(spec(5, 5, 0)), counts(specified(5, 2), all(0)), answer{2, 2}},
		{"C-13 for specified ones of both, new ones first", surge(3).of(spec(5, 3, 0)), counts(specified(3, 2), specified(2, 1)), answer{3, 2}},
		{"C-13 the cap holds for the old part", surge(1).of(spec(5, 3, 0)), counts(specified(3, 3), all(2)), answer{1, 1}},
		{"C-13 deletion wins a tie", surge(1).of(spec(5, 4, 0)), counts(specified(5, 1), all(0)), answer{1, 1}},
		{"C-13 the larger of both", surge(3).of(spec(5, 3, 0)), counts(specified(5, 1), all(0)), answer{2, 0}},
		{"C-20 paused", surge(0).of(spec(10, 0, 1)), counts(all(10), all(0)), answer{0, 0}},
		{"in place needs no stand-ins", both(inPlace, surge(2)).of(spec(10, 0, 1)), counts(all(10), all(0)), answer{0, 0}},
		{"in place, but nothing may be unavailable", both(inPlace, surge(2)).of(spec(10, 0, 0)), counts(all(10), all(0)), answer{2, 0}},
		{"in place, specified Pods still get stand-ins", both(inPlace, surge(2)).of(spec(10, 0, 1)), counts(all(0), specified(10, 2)), answer{1, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rollout.Plan(tc.spec, tc.have)
			if diff := cmp.Diff(tc.want, answer{got.Surge, got.SurgeOld}); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWorkedSequence is a rollout in place with surge and partition, step by step.
func TestWorkedSequence(t *testing.T) {
	s := surge(1).of(spec(5, 3, 1))
	for _, tc := range []struct {
		name string
		have rollout.Counts
		want rollout.Step
	}{
		{"C-19 row 1: 5 old ready", counts(all(5), all(0)), rollout.Step{Create: 1, Surge: 1, Candidates: 2, Keep: 3, UpdateUnavailable: 1, UpdateAtTarget: 1, DeleteReady: 1}},
		{"C-19 row 2: 5 old ready, 1 new not ready", counts(all(5), unavailable(1, 1)), rollout.Step{Surge: 1, Candidates: 1, Keep: 3, UpdateUnavailable: 2, UpdateAtTarget: 2, DeleteReady: 1}},
		{"C-19 row 3: 4 old ready, 2 new not ready", counts(all(4), unavailable(2, 2)), rollout.Step{Delete: 1, DeleteOld: 1, Keep: 3, UpdateUnavailable: 2, UpdateAtTarget: 2}},
		{"C-19 row 4: 4 old ready, 1 new ready, 1 not", counts(all(4), unavailable(2, 1)), rollout.Step{Delete: 1, DeleteOld: 1, Keep: 3, UpdateUnavailable: 2, UpdateAtTarget: 2, DeleteReady: 1}},
		{"C-19 row 5: 3 old, 2 new", counts(all(3), all(2)), rollout.Step{Keep: 3, UpdateUnavailable: 1, UpdateAtTarget: 1, DeleteReady: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rollout.Plan(s, tc.have)
			got.Limits = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToUpdate(t *testing.T) {
	const up, down = true, false
	for _, tc := range []struct {
		name                                 string
		limit, target, unavailable, atTarget int
		candidates                           []bool
		want                                 []bool
	}{
		{"C-43 replicas 10, maxUnavailable 2, 3 old crashed", 2, 0, 3, 0, []bool{down, down, down, up, up}, []bool{down, down}},
		{"C-43 one of the new ones is not there yet", 2, 1, 4, 0, []bool{down, down, down, up}, []bool{down}},
		{"C-43 all available", 3, 0, 0, 0, []bool{up, up, up, up}, []bool{up, up, up}},
		{"C-43 an available one stops at the total", 3, 0, 2, 0, []bool{up, up, up}, []bool{up}},
		{"C-43 crashed ones do not add to the total", 3, 0, 1, 0, []bool{down, up, up, up}, []bool{down, up, up}},
		{"C-43 new ones fill the limit", 2, 2, 2, 0, []bool{down, up}, nil},
		{"C-63 no room for an available one does not hold up one that is down", 2, 0, 2, 0, []bool{up, down}, []bool{down}},
		{"C-63 missing Pods do not hold up one that is down", 0, 0, 2, 1, []bool{up, down, down}, []bool{down}},
		{"C-63 the new revision does not come up: no more than that", 0, 1, 2, 1, []bool{down, down}, nil},
		{"C-19 no more than the step's number", 9, 0, 0, 0, []bool{up, up, up, up}, []bool{up, up, up}},
		{"fewer candidates than budget", 5, 0, 0, 0, []bool{up, up}, []bool{up, up}},
		{"C-19 no budget", 0, 0, 0, 0, []bool{down, up}, nil},
		{"C-19 missing Pods leave less than none", -3, 0, 0, 0, []bool{down, up}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := rollout.Step{Candidates: 3, UpdateUnavailable: tc.limit, UpdateAtTarget: max(tc.limit, tc.atTarget)}
			c := rollout.Counts{Old: rollout.Group{Unavailable: tc.unavailable - tc.target}, New: rollout.Group{Unavailable: tc.target}}
			serves := func(available bool) bool { return available }
			if diff := cmp.Diff(tc.want, rollout.ToUpdate(step, c, tc.candidates, serves)); diff != "" {
				t.Errorf("to update (-want +got):\n%s", diff)
			}
		})
	}
	serves := func(available bool) bool { return available }
	if got := rollout.ToUpdate(rollout.Step{}, rollout.Counts{}, []bool{down, up}, serves); got != nil {
		t.Errorf("the zero step updates %v", got)
	}
}

func TestToDelete(t *testing.T) {
	const up, down = true, false
	for _, tc := range []struct {
		name       string
		ready      int
		candidates []bool
		want       []bool
	}{
		{"C-17 ready ones within the budget", 2, []bool{up, up, up}, []bool{up, up}},
		{"C-17 what is not ready needs no budget", 0, []bool{up, down, up, down}, []bool{down, down}},
		{"C-17 in their order", 1, []bool{down, up, up, down}, []bool{down, up, down}},
		{"C-17 less than no budget", -1, []bool{up, down}, []bool{down}},
		{"nothing to delete", 3, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rollout.ToDelete(rollout.Step{DeleteReady: tc.ready}, tc.candidates, func(ready bool) bool { return ready })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("to delete (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec rollout.Spec
		have rollout.Counts
		want map[reason.Code]string // path
		says string
	}{
		{"nothing limits a settled workload", spec(5, 0, 1), counts(all(0), all(5)), nil, ""},
		{"nothing limits the start of a rollout", spec(5, 0, 1), counts(all(5), all(0)), nil, ""},
		{
			"C-15 creation", scaleLimit(2).of(spec(6, 0, 1)), counts(all(0), unavailable(3, 1)),
			map[reason.Code]string{rollout.ScaleUpLimited: "scaleStrategy.maxUnavailable"},
			"1 of 3 missing Pods",
		},
		{
			"C-17 specified Pods", spec(5, 0, 1), counts(all(0), specified(5, 2)),
			map[reason.Code]string{rollout.DeleteLimited: "maxUnavailable"},
			"2 available Pods are to be deleted, 1 may be",
		},
		{
			"C-17 specified Pods that do not serve go freely", spec(5, 0, 1),
			counts(all(0), rollout.Group{Total: 5, Specified: 1, SpecifiedUnavailable: 1, Unavailable: 3}), nil, "",
		},
		{
			"C-17 scale-in", surge(1).of(spec(5, 3, 1)), counts(all(4), unavailable(2, 2)),
			map[reason.Code]string{rollout.DeleteLimited: "maxUnavailable"},
			"1 available Pods are to be deleted, 0 may be",
		},
		{"C-17 scale-in of what does not serve", spec(5, 0, 0), counts(all(0), unavailable(6, 1)), nil, ""},
		{
			"C-19 updates", spec(5, 0, 1), counts(all(4), unavailable(1, 1)),
			map[reason.Code]string{rollout.UpdateLimited: "maxUnavailable"},
			"1 Pods are unavailable, 1 may be",
		},
		{
			"C-48 partition", spec(5, 3, 1), counts(all(3), all(2)),
			map[reason.Code]string{rollout.PartitionReached: "partition"},
			"3 Pods are at the old revision, 3 are kept there",
		},
		{
			"C-30 Pods that wait for a hook keep their places", spec(4, 0, 2), counts(all(0), rollout.Group{Total: 4, PreDeleting: 4}),
			map[reason.Code]string{rollout.DeletionPending: ""},
			"4 Pods wait for a hook before they are deleted",
		},
		{
			"C-30 they are to go, and enough stay", spec(3, 0, 1), counts(all(0), rollout.Group{Total: 5, PreDeleting: 2}), nil, "",
		},
		{
			"C-30 others are created in their place",
			rollout.Spec{Replicas: 4, ExcludePreDeleting: true},
			counts(all(0), rollout.Group{Total: 4, PreDeleting: 4}), nil, "",
		},
		{
			"C-19 what waits for a hook uses the budget", spec(4, 0, 2), counts(all(2), rollout.Group{Total: 2, PreDeleting: 2}),
			map[reason.Code]string{rollout.DeletionPending: "", rollout.UpdateLimited: "maxUnavailable"},
			"2 Pods are unavailable (2 wait for a hook before they are deleted), 2 may be",
		},
		{"C-11 one revision knows no partition", with(oneRevision).of(spec(5, 3, 1)), counts(all(0), all(5)), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got map[reason.Code]string
			limits := rollout.Plan(tc.spec, tc.have).Limits
			for _, limit := range limits {
				if got == nil {
					got = map[reason.Code]string{}
				}
				got[limit.Code] = limit.Path
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if !strings.Contains(limits.String(), tc.says) {
				t.Errorf("limits say %q, want %q in it", limits, tc.says)
			}
		})
	}
}

// TestInvalid: if a number of the Spec or the Counts is impossible, the step is empty, and its limits name the
// number.
func TestInvalid(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec rollout.Spec
		have rollout.Counts
		want []string // paths
	}{
		{"replicas", rollout.Spec{Replicas: -1}, counts(all(0), all(3)), []string{"replicas"}},
		{
			"every number",
			rollout.Spec{Replicas: -1, Partition: -1, MaxUnavailable: -1, MaxSurge: -1, ScaleMaxUnavailable: new(-1)},
			counts(all(0), all(3)),
			[]string{"replicas", "partition", "maxUnavailable", "maxSurge", "scaleStrategy.maxUnavailable"},
		},
		{"a count below zero", spec(3, 0, 1), counts(all(0), rollout.Group{Total: 3, Unavailable: -1}), []string{"counts.new"}},
		{"a Pod counted twice", spec(3, 0, 1), counts(rollout.Group{Total: 1, PreDeleting: 1, Unavailable: 1}, all(2)), []string{"counts.old"}},
		{"more that do not serve than there are", spec(3, 0, 1), counts(all(0), rollout.Group{Total: 3, SpecifiedUnavailable: 1}), []string{"counts.new"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := rollout.Plan(tc.spec, tc.have)
			var got []string
			for _, limit := range step.Limits {
				if limit.Code != rollout.InvalidRollout {
					t.Errorf("limit %v", limit)
				}
				got = append(got, limit.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
			if step.Limits = nil; !cmp.Equal(step, rollout.Step{}) {
				t.Errorf("step %+v", step)
			}
		})
	}
}

func TestPlanAllocatesNothingUnlessLimited(t *testing.T) {
	s := surge(3).of(scaleLimit(100).of(spec(100, 30, 20)))
	c := counts(unavailable(60, 2), all(40))
	if limits := rollout.Plan(s, c).Limits; len(limits) > 0 {
		t.Fatalf("the case is limited: %v", limits)
	}
	if n := testing.AllocsPerRun(100, func() {
		step := rollout.Plan(s, c)
		rollout.ToUpdate(step, c, nil, func(bool) bool { return true })
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkPlan(b *testing.B) {
	s := surge(3).of(spec(100, 30, 20))
	c := counts(unavailable(60, 2), all(40))
	b.ReportAllocs()
	for b.Loop() {
		if step := rollout.Plan(s, c); step.Candidates != 30 {
			b.Fatal(step)
		}
	}
}

// FuzzPlan checks each number of a single step, for any counts. FuzzWholeRollouts checks whole rollouts.
func FuzzPlan(f *testing.F) {
	f.Add(uint16(5), uint16(3), uint16(1), uint16(1), int16(-1), uint8(0), uint16(5), uint16(0), uint16(0), uint16(0))
	f.Add(uint16(10), uint16(4), uint16(2), uint16(0), int16(2), uint8(2), uint16(3), uint16(9), uint16(3), uint16(1))
	f.Add(uint16(6), uint16(0), uint16(0), uint16(3), int16(0), uint8(7), uint16(9), uint16(9), uint16(6), uint16(9))
	f.Fuzz(func(t *testing.T, replicas, partition, maxUnavailable, maxSurge uint16, scale int16, flags uint8, old, updated, down, gone uint16) {
		var limit *int
		if scale >= 0 {
			limit = new(int(scale))
		}
		s := rollout.Spec{
			Replicas: int(replicas), Partition: min(int(partition), int(replicas)), MaxUnavailable: int(maxUnavailable),
			MaxSurge: int(maxSurge), ScaleMaxUnavailable: limit,
			Rollback: flags&1 > 0, OneRevision: flags&2 > 0, InPlace: flags&4 > 0, ExcludePreDeleting: flags&8 > 0,
		}
		group := func(total int) rollout.Group {
			g := rollout.Group{Total: total, Unavailable: min(int(down), total)}
			left := total - g.Unavailable
			g.PreDeleting = min(int(gone), left)
			g.Specified = (left - g.PreDeleting) / 2
			g.SpecifiedUnavailable = g.Specified / 2
			return g
		}
		c := counts(group(int(old)), group(int(updated)))
		checkStep(t, s, c, rollout.Plan(s, c))
	})
}

func checkStep(t *testing.T, s rollout.Spec, c rollout.Counts, got rollout.Step) {
	counted := c.Total()
	if s.ExcludePreDeleting {
		counted -= c.Old.PreDeleting + c.New.PreDeleting
	}
	from := c.Old
	if got.Back {
		from = c.New
	}
	for what, ok := range map[string]bool{
		"CreateOld within Create":                   0 <= got.CreateOld && got.CreateOld <= got.Create,
		"DeleteOld within Delete":                   0 <= got.DeleteOld && got.DeleteOld <= got.Delete,
		"SurgeOld within Surge":                     0 <= got.SurgeOld && got.SurgeOld <= got.Surge,
		"Surge within MaxSurge":                     got.Surge <= s.MaxSurge,
		"never more than Replicas + MaxSurge":       got.Create == 0 || counted+got.Create <= s.Replicas+s.MaxSurge,
		"not created and deleted at once":           got.Create == 0 || got.Delete == 0,
		"deletes Pods that exist and are not asked": got.Delete <= c.Total()-c.Old.Specified-c.New.Specified,
		"deletes old Pods that exist":               got.DeleteOld <= c.Old.Total-c.Old.Specified,
		"scale-in keeps Replicas":                   got.Delete == 0 || counted-got.Delete >= s.Replicas,
		"budgets are not negative":                  got.DeleteReady >= 0 && got.UpdateUnavailable >= 0,
		"updates Pods that stay":                    got.Candidates >= 0 && got.Candidates <= from.Total-from.PreDeleting-from.Specified,
		"missing Pods hold up available ones only":  got.UpdateAtTarget >= got.UpdateUnavailable,
		"goes back only with the gate":              !got.Back || (s.Rollback && !s.OneRevision),
		"creates old Pods only for the partition":   got.CreateOld == 0 || c.Old.Total-c.Old.PreDeleting < s.Partition+got.SurgeOld,
	} {
		if !ok {
			t.Errorf("broken: %s\nspec %+v\ncounts %+v\nstep %+v", what, s, c, got)
		}
	}
}

func TestAdd(t *testing.T) {
	var c rollout.Counts
	for _, pod := range []struct{ updated, available bool }{{true, true}, {true, false}, {false, false}, {false, false}, {false, true}} {
		c.Add(pod.updated, pod.available)
	}
	want := rollout.Counts{Old: rollout.Group{Total: 3, Unavailable: 2}, New: rollout.Group{Total: 2, Unavailable: 1}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestPaths: reasons name the fields of the workload's API.
func TestPaths(t *testing.T) {
	paths := rollout.Paths{
		Partition: "spec.strategy.partition", MaxUnavailable: "spec.strategy.maxUnavailable", ScaleMaxUnavailable: "spec.scaleLimit", Paused: "spec.paused",
	}
	step := rollout.Plan(rollout.Spec{Replicas: 3, MaxUnavailable: 1, ScaleMaxUnavailable: new(0), Paths: paths},
		rollout.Counts{Old: rollout.Group{Total: 2, Unavailable: 1}})
	got := map[reason.Code]string{}
	for _, limit := range step.Limits {
		got[limit.Code] = limit.Path
	}
	want := map[reason.Code]string{rollout.ScaleUpLimited: paths.ScaleMaxUnavailable, rollout.UpdateLimited: paths.MaxUnavailable}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
