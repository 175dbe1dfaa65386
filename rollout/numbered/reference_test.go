package numbered_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// walk is a reference implementation of parallel management, rule after rule, without hooks and without the kit's
// additional limits.
func walk(s numbered.Spec, pods []numbered.Pod) numbered.Step {
	j := newJudge(s, pods, numbered.Step{})
	var step numbered.Step
	gone := map[int]bool{} // terminating, or deleted in the step
	remove := func(o int) {
		gone[o] = true
		step.Delete = append(step.Delete, o)
	}
	j.scale(&step, remove)
	for _, p := range slices.Backward(pods) { // unwanted Pods, all at once
		if gone[p.Ordinal] = gone[p.Ordinal] || p.Health == rollout.Terminating; !j.wants(p.Ordinal) && !gone[p.Ordinal] {
			remove(p.Ordinal)
		}
	}
	slices.SortFunc(step.Delete, func(a, b int) int { return b - a })
	if s.Paused || s.OnDelete {
		return step
	}
	down := j.down()
	for o := range s.Wanted.Backward() {
		p, exists := j.of[o]
		if !exists || !p.Specified || gone[o] || (serves(p) && down >= s.MaxUnavailable) {
			continue
		}
		if serves(p) {
			down++
		}
		remove(o)
	}
	slices.SortFunc(step.Delete, func(a, b int) int { return b - a })
	for _, p := range j.inLine(gone) {
		if serves(p) && down >= s.MaxUnavailable {
			break
		}
		if serves(p) {
			down++
		}
		step.Update = append(step.Update, p.Ordinal)
	}
	return step
}

// scale creates missing Pods and deletes ended Pods, in ascending order of ordinals until the limit is reached.
func (j *judge) scale(step *numbered.Step, remove func(int)) {
	left := j.Wanted.Len()
	if j.ScaleMaxUnavailable != nil {
		left = *j.ScaleMaxUnavailable
	}
	old := j.count(func(p numbered.Pod) bool { return j.wants(p.Ordinal) && !p.Updated })
	for o := range j.Wanted.All() {
		if left == 0 {
			return
		}
		p, exists := j.of[o]
		switch {
		case !exists:
			isOld := j.rank(o)+1 <= j.Partition
			if j.Unordered {
				isOld = old < j.Partition
			}
			if isOld = isOld && !j.OnDelete; isOld {
				old++
			}
			step.Create = append(step.Create, numbered.Create{Ordinal: o, Old: isOld})
		case p.Health == rollout.Ended && !p.Resting:
			remove(o)
		case serves(p):
			continue
		}
		left--
	}
}

// inLine returns the Pods that must be updated, in update order.
func (j *judge) inLine(gone map[int]bool) []numbered.Pod {
	line := slices.Clone(j.pods)
	if !j.Unordered {
		slices.SortFunc(line, func(a, b numbered.Pod) int { return b.Ordinal - a.Ordinal })
	}
	line = slices.DeleteFunc(line, func(p numbered.Pod) bool {
		return gone[p.Ordinal] || p.Updated || p.Specified || p.Health == rollout.Ended || !j.wants(p.Ordinal)
	})
	if j.Unordered {
		return line[:max(len(line)-j.Partition, 0)]
	}
	return slices.DeleteFunc(line, func(p numbered.Pod) bool { return j.rank(p.Ordinal) < j.Partition })
}

// TestAgainstReference compares Plan with the reference implementation on random Pods. The only allowed difference:
// if an available Pod must wait for the budget, later unavailable Pods are still updated.
func TestAgainstReference(t *testing.T) {
	more := 0
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		flag := func() bool { return rng.IntN(4) == 0 }
		s := numbered.Spec{
			Wanted: wanted(t, rng.IntN(3), rng.IntN(9), "1", "5-6"), Partition: rng.IntN(2) * rng.IntN(9), MaxUnavailable: rng.IntN(5),
			Parallel: true, Unordered: flag(), Paused: flag(), OnDelete: flag(), UnlimitedScaleIn: true, UnlimitedRepair: true,
		}
		if flag() {
			s.ScaleMaxUnavailable = new(1 + rng.IntN(4))
		}
		var pods []numbered.Pod
		for o := range 14 {
			if health := rollout.Health(rng.IntN(8)); health > 0 {
				if health > rollout.Terminating {
					health = rollout.Available
				}
				pods = append(pods, numbered.Pod{Ordinal: o, Updated: rng.IntN(2) == 0, Health: health, Specified: flag() && !s.Unordered})
			}
		}
		got, err := numbered.Plan(s, pods)
		if err != nil {
			t.Fatal(err)
		}
		want := walk(s, pods)
		of := newJudge(s, pods, got).of
		extra := got.Update[min(len(want.Update), len(got.Update)):]
		if slices.ContainsFunc(extra, func(o int) bool { return serves(of[o]) }) {
			t.Fatalf("seed %d: available Pods beyond the reference's are updated\n%s\n%s\nreference: %s\n      got: %s", seed, ruled(s), listed(pods), told(want), told(got))
		}
		more += len(extra)
		got.Update, got.Limits = got.Update[:len(got.Update)-len(extra)], nil
		if diff := cmp.Diff(told(want), told(got)); diff != "" {
			t.Fatalf("seed %d (-reference +got):\n%s\n%s\n%s", seed, diff, ruled(s), listed(pods))
		}
	}
	if more == 0 {
		t.Error("the difference never showed")
	}
}
