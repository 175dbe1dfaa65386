package numbered_test

import (
	"fmt"
	"slices"

	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// judge checks a single step against the rules, independently of the code that computed the step. Each rule is
// written as simply as possible.
type judge struct {
	numbered.Spec

	step numbered.Step
	// pods are the existing Pods in the given order; the map of holds the Pods by ordinal.
	pods []numbered.Pod
	of   map[int]numbered.Pod
}

func newJudge(s numbered.Spec, pods []numbered.Pod, step numbered.Step) *judge {
	j := &judge{Spec: s, step: step, pods: pods, of: map[int]numbered.Pod{}}
	for _, p := range pods {
		j.of[p.Ordinal] = p
	}
	return j
}

func serves(p numbered.Pod) bool {
	return p.Health == rollout.Available && !p.PreDeleting && !p.PreUpdating
}

// underway reports whether a deletion or update of the Pod has begun.
func underway(p numbered.Pod) bool {
	return p.Health == rollout.Terminating || p.PreDeleting || (p.PreUpdating && p.Health != rollout.Ended)
}

func (j *judge) wants(ordinal int) bool { return j.Wanted.Contains(ordinal) }

func (j *judge) rank(ordinal int) int {
	rank, _ := j.Wanted.Index(ordinal)
	return rank
}

// down counts the wanted ordinals without an available Pod.
func (j *judge) down() int {
	n := 0
	for o := range j.Wanted.All() {
		if p, ok := j.of[o]; !ok || !serves(p) {
			n++
		}
	}
	return n
}

func (j *judge) count(test func(numbered.Pod) bool) int {
	n := 0
	for _, p := range j.pods {
		if test(p) {
			n++
		}
	}
	return n
}

// begins returns the ordinals of the Pods whose deletion or update the step begins.
func (j *judge) begins() []int {
	return slices.DeleteFunc(slices.Concat(j.step.Delete, j.step.Update), func(o int) bool { return underway(j.of[o]) })
}

func (j *judge) verdict() error {
	for _, rule := range []func() error{j.lists, j.reasons, j.budget, j.repairs, j.scaleLimit, j.revisions, j.order, j.oneAtATime} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

// lists checks that each ordinal is in at most one list, and that its Pod exists or is missing, as the list requires.
func (j *judge) lists() error {
	named := map[int]bool{}
	for _, o := range slices.Concat(j.step.Delete, j.step.Update, j.step.Cancel) {
		p, ok := j.of[o]
		switch {
		case !ok:
			return fmt.Errorf("there is no Pod %d", o)
		case named[o]:
			return fmt.Errorf("Pod %d is in two lists", o)
		case p.Health == rollout.Terminating:
			return fmt.Errorf("Pod %d is terminating, nothing can be done about it", o)
		}
		named[o] = true
	}
	last := -1
	for _, c := range j.step.Create {
		if _, taken := j.of[c.Ordinal]; taken {
			return fmt.Errorf("ordinal %d is created and exists", c.Ordinal)
		}
		if !j.wants(c.Ordinal) || c.Ordinal <= last {
			return fmt.Errorf("ordinal %d is created, which is not wanted or out of order", c.Ordinal)
		}
		last = c.Ordinal
	}
	if down := slices.Clone(j.step.Delete); !slices.IsSortedFunc(down, func(a, b int) int { return b - a }) {
		return fmt.Errorf("deletion order %v", down)
	}
	return nil
}

// reasons checks that the state of each Pod in the step justifies the action on the Pod.
func (j *judge) reasons() error {
	for _, o := range j.step.Delete {
		p := j.of[o]
		asked := p.Specified && (p.PreDeleting || (!j.Paused && !j.OnDelete))
		if j.wants(o) && p.Health != rollout.Ended && !asked {
			return fmt.Errorf("Pod %d is deleted for no reason", o)
		}
	}
	for _, o := range j.step.Update {
		p := j.of[o]
		keeps := !j.Unordered && j.rank(o) < j.Partition
		if !j.wants(o) || p.Updated || p.Specified || p.Health == rollout.Ended || keeps || j.Paused || j.OnDelete {
			return fmt.Errorf("Pod %d is updated for no reason", o)
		}
	}
	for _, o := range j.step.Cancel {
		p := j.of[o]
		keeps := j.Unordered || j.rank(o) < j.Partition || j.OnDelete
		if !j.wants(o) || p.Specified || p.Health == rollout.Ended || !underway(p) || (!p.Updated && !keeps) {
			return fmt.Errorf("Pod %d is taken back for no reason", o)
		}
	}
	return nil
}

// budget checks that after the actions at least the wanted number minus MaxUnavailable of Pods are in service.
func (j *judge) budget() error {
	counts := func(p numbered.Pod) bool { return serves(p) && (j.wants(p.Ordinal) || !j.freeScaleIn()) }
	before, after := j.count(counts), j.count(counts)
	for _, o := range j.begins() {
		if counts(j.of[o]) {
			after--
		}
	}
	if bound := j.Wanted.Len() - j.MaxUnavailable; after < min(before, bound) {
		return fmt.Errorf("available Pods go from %d to %d, the bound is %d", before, after, bound)
	}
	return nil
}

func (j *judge) freeScaleIn() bool { return j.UnlimitedScaleIn && j.Parallel }

// repairs checks that, if Pods at the new revision are unavailable, the step does not update all unavailable Pods at
// once.
func (j *judge) repairs() error {
	if j.UnlimitedRepair || j.Unordered { // with Unordered, the partition does not say which Pods are being updated
		return nil
	}
	untested := j.count(func(p numbered.Pod) bool {
		switch {
		case !j.wants(p.Ordinal):
			return false
		case p.Updated:
			return !serves(p) && p.Health != rollout.Ended
		}
		return !j.OnDelete && j.rank(p.Ordinal) >= j.Partition && underway(p)
	})
	repaired := 0
	for _, o := range j.step.Update {
		if p := j.of[o]; !serves(p) && !underway(p) {
			repaired++
		}
	}
	if repaired > 0 && untested+repaired > max(j.MaxUnavailable, 1) {
		return fmt.Errorf("%d broken Pods are updated beside %d at the new revision that are not available", repaired, untested)
	}
	return nil
}

// scaleLimit checks, for each created Pod, that fewer lower ordinals than ScaleMaxUnavailable lack an available Pod.
func (j *judge) scaleLimit() error {
	if j.ScaleMaxUnavailable == nil {
		return nil
	}
	for _, c := range j.step.Create {
		below := 0
		for o := range j.Wanted.All() {
			if o == c.Ordinal {
				break
			}
			if p, ok := j.of[o]; !ok || !serves(p) {
				below++
			}
		}
		if below >= *j.ScaleMaxUnavailable {
			return fmt.Errorf("%d is created with %d below that are not available", c.Ordinal, below)
		}
	}
	return nil
}

// revisions checks that each created Pod has the revision that the partition requires.
func (j *judge) revisions() error {
	old := j.count(func(p numbered.Pod) bool { return j.wants(p.Ordinal) && !p.Updated })
	for _, c := range j.step.Create {
		want := j.rank(c.Ordinal) < j.Partition
		if j.Unordered {
			want = old < j.Partition
		}
		if want = want && !j.OnDelete; c.Old != want {
			return fmt.Errorf("%d is created old: %v, want %v", c.Ordinal, c.Old, want)
		}
		if c.Old {
			old++
		}
	}
	if staying := j.count(func(p numbered.Pod) bool {
		return j.wants(p.Ordinal) && !p.Updated && !p.Specified && p.Health != rollout.Terminating && p.Health != rollout.Ended
	}); j.Unordered && len(j.step.Update) > max(staying-j.Partition, 0) {
		return fmt.Errorf("%d of %d old Pods are updated, %d are to stay", len(j.step.Update), staying, j.Partition)
	}
	return nil
}

// order checks that no available or starting Pod is updated before a due Pod that comes earlier.
func (j *judge) order() error {
	line := slices.Clone(j.pods)
	if !j.Unordered {
		slices.SortFunc(line, func(a, b numbered.Pod) int { return b.Ordinal - a.Ordinal })
	}
	if j.Parallel { // Pods in back-off come last
		slices.SortStableFunc(line, func(a, b numbered.Pod) int { return int(a.Rest - b.Rest) })
	}
	left := -1
	for _, p := range line {
		patient := serves(p) || p.Starting && p.Health == rollout.Unavailable && !underway(p)
		kept := !j.Unordered && j.rank(p.Ordinal) < j.Partition
		if !patient || kept || p.Updated || p.Specified || !j.wants(p.Ordinal) {
			continue
		}
		switch {
		case !slices.Contains(j.step.Update, p.Ordinal):
			left = p.Ordinal
		case left >= 0:
			return fmt.Errorf("%d is updated and %d is not, whose turn it is", p.Ordinal, left)
		}
	}
	return nil
}

// broken Pods are not in service, although they neither terminate nor have ended.
func broken(p numbered.Pod) bool {
	return !serves(p) && (p.Health == rollout.Available || p.Health == rollout.Unavailable)
}

// oneAtATime checks that ordered management changes a single Pod at a time.
func (j *judge) oneAtATime() error {
	if j.Parallel {
		return nil
	}
	begins := j.begins()
	if len(begins)+len(j.step.Create) > 1 {
		return fmt.Errorf("%d Pods are created and %v deleted or updated at once", len(j.step.Create), begins)
	}
	for _, c := range j.step.Create {
		for o := range j.Wanted.All() {
			if p, ok := j.of[o]; o < c.Ordinal && (!ok || !serves(p)) {
				return fmt.Errorf("%d is created before %d is available", c.Ordinal, o)
			}
		}
	}
	for _, o := range begins {
		p := j.of[o]
		if p.Health == rollout.Ended && j.wants(o) {
			continue // the Pod has ended and is deleted so that its ordinal gets a new Pod, in the ascending order of creations
		}
		if n := j.count(func(p numbered.Pod) bool { return underway(p) && (j.wants(p.Ordinal) || !p.PreUpdating) }); n > 0 {
			return fmt.Errorf("%d is begun beside %d that are under way", o, n)
		}
		if (serves(p) || !j.wants(o)) && j.down() > 0 {
			return fmt.Errorf("%d is taken away with %d not available", o, j.down())
		}
		for _, other := range j.pods {
			if broken(p) && broken(other) && !j.wants(o) && !j.wants(other.Ordinal) && other.Ordinal < o {
				return fmt.Errorf("%d goes, which is not available, and %d below it is not, either", o, other.Ordinal)
			}
			if above := other.Ordinal > o; !j.wants(other.Ordinal) && (j.wants(o) && serves(p) || !j.wants(o) && above) {
				return fmt.Errorf("%d goes before %d, which is not wanted", o, other.Ordinal)
			}
		}
	}
	return nil
}
