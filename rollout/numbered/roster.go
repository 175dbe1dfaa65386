package numbered

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/internal/limits"
)

// roster holds the Pods of a numbered workload in ascending order of their ordinals, with the planned action for each.
type roster struct {
	*Spec

	pods []entry
	// updateOrder are indexes into pods; nil means descending order of ordinals.
	updateOrder []int32
	// available is the number of wanted ordinals with an available Pod, and excess the number of available unwanted
	// Pods.
	available, excess int
	// untested is the number of unavailable Pods at the new revision or being updated to it.
	untested int

	create []Create
	// awaited is the ordinal that the reason OrderedWait names.
	awaited *int
	limits.Noted
}

// entry is a Pod and its planned action.
type entry struct {
	Pod

	// rank is the number of wanted ordinals below the Pod's ordinal.
	rank   int
	wanted bool
	// due says that the Pod must be updated to the new revision.
	due bool
	act act
}

type act uint8

const (
	leave act = iota
	remove
	update
	cancel
)

// staysOld reports whether a Pod is at the old revision and will not be recreated for a reason other than the update.
func (e *entry) staysOld() bool {
	return e.wanted && !e.Updated && !e.Specified && (e.Health == rollout.Available || e.Health == rollout.Unavailable)
}

func (s *Spec) paths() limits.Paths { return limits.Paths(s.Paths).OrDefaults() }

func (s *Spec) check() error {
	var problems reason.List
	paths := s.paths()
	if s.Wanted.IsZero() {
		problems = append(problems, reason.Reason{
			Code: rollout.InvalidRollout, Path: "wanted", Detail: "nobody has computed the wanted ordinals",
			Remedy: "use what ordinals.Of returns without an error",
		})
	}
	limits.Negative(&problems, rollout.InvalidRollout, paths.Partition, s.Partition)
	limits.Negative(&problems, rollout.InvalidRollout, paths.MaxUnavailable, s.MaxUnavailable)
	if s.ScaleMaxUnavailable != nil {
		limits.Negative(&problems, rollout.InvalidRollout, paths.ScaleMaxUnavailable, *s.ScaleMaxUnavailable)
	}
	if s.Unordered && !s.Parallel {
		problems = append(problems, reason.Reason{
			Code: rollout.InvalidRollout, Path: "unordered",
			Detail: "Pods that are managed one at a time are updated in the order of their ordinals",
			Remedy: "set parallel too",
		})
	}
	return problems.Err()
}

func newRoster(spec *Spec, pods []Pod) (*roster, error) {
	r := &roster{Spec: spec, pods: make([]entry, len(pods))}
	order, err := ascending(pods)
	if err != nil {
		return nil, err
	}
	rankOf := spec.Wanted.Ascending()
	for i, key := range order {
		e := &r.pods[i]
		e.Pod = pods[key.position()]
		e.rank, e.wanted = rankOf(e.Ordinal)
		switch {
		case !e.available():
		case e.wanted:
			r.available++
		default:
			r.excess++
		}
	}
	if spec.Unordered {
		r.orderAsGiven(order)
	}
	r.markDue()
	for i := range r.pods {
		if e := &r.pods[i]; e.wanted &&
			((e.Updated && !e.available() && e.Health != rollout.Ended) || (e.due && e.begun())) {
			r.untested++
		}
	}
	return r, nil
}

// key has an ordinal in its upper half and an index in the list of Pods in its lower half: numbers are sorted faster
// than structs.
type key uint64

func (k key) position() int { return int(k & 0xFFFFFFFF) }
func (k key) ordinal() int  { return int(k >> 32) }

// ascending returns the Pods' keys in ascending order of ordinals, or an error about the first invalid Pod.
func ascending(pods []Pod) ([]key, error) {
	bad := func(ordinal int, detail, remedy string) error {
		return reason.List{{
			Code: rollout.InvalidRollout, Path: "pods", New: strconv.Itoa(ordinal), Detail: detail, Remedy: remedy,
		}}
	}
	keys := make([]key, len(pods))
	highest := 0
	for i := range pods {
		p := &pods[i]
		if p.Ordinal < 0 || p.Ordinal > ordinals.Max {
			return nil, bad(p.Ordinal, "no Pod can have this ordinal", "use 0 to 2147483647")
		}
		if p.Health < rollout.Available || p.Health > rollout.Terminating {
			return nil, bad(p.Ordinal, "the Pod of this ordinal has no health",
				"set Health to Available, Unavailable, Ended or Terminating")
		}
		keys[i] = key(p.Ordinal)<<32 | key(i)
		highest = max(highest, p.Ordinal)
	}
	keys = sortKeys(keys, highest)
	for i := 1; i < len(keys); i++ {
		if ordinal := keys[i].ordinal(); ordinal == keys[i-1].ordinal() {
			return nil, bad(ordinal, "two Pods have this ordinal", "give Pods of one workload and name each once")
		}
	}
	return keys, nil
}

// sortKeys sorts by ordinal with a radix sort, byte by byte. Pods from a cache are not sorted. For thousands of Pods,
// sortKeys takes a small part of the time that a comparison sort takes.
func sortKeys(keys []key, highest int) []key {
	spare := make([]key, len(keys))
	for shift := 32; highest > 0; shift, highest = shift+8, highest>>8 {
		var next [256]int
		for _, k := range keys {
			next[byte(k>>shift)]++
		}
		sum := 0
		for i, n := range next {
			next[i] = sum
			sum += n
		}
		for _, k := range keys {
			at := &next[byte(k>>shift)]
			spare[*at] = k
			*at++
		}
		keys, spare = spare, keys
	}
	return keys
}

// orderAsGiven sets updateOrder. Pods whose update has begun come first, Pods in back-off last.
func (r *roster) orderAsGiven(order []key) {
	given := make([]int32, len(order))
	for i, key := range order {
		given[key.position()] = int32(i)
	}
	class := func(i int32) int { return 2*bit(!r.pods[i].begun()) + bit(r.pods[i].Rest > 0) }
	var next [4]int
	for _, i := range given {
		for c := class(i) + 1; c < len(next); c++ {
			next[c]++
		}
	}
	r.updateOrder = make([]int32, len(order))
	for _, i := range given {
		at := &next[class(i)]
		r.updateOrder[*at] = i
		*at++
	}
	for c := 1; c < len(next); c += 2 { // each element of next is now the end of its range
		slices.SortStableFunc(r.updateOrder[next[c-1]:next[c]],
			func(a, b int32) int { return cmp.Compare(r.pods[a].Rest, r.pods[b].Rest) })
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// markDue marks the Pods that must be updated because the partition does not keep these Pods at the old revision.
func (r *roster) markDue() {
	if r.OnDelete {
		return
	}
	if !r.Unordered {
		for i := range r.pods {
			e := &r.pods[i]
			e.due = e.wanted && !e.Updated && e.rank >= r.Partition
		}
		return
	}
	staying := 0
	for i := range r.pods {
		staying += bit(r.pods[i].staysOld())
	}
	left := staying - r.Partition
	for _, i := range r.updateOrder {
		e := &r.pods[i]
		switch {
		// A Pod that does not stay will be created again: at the new revision if enough Pods remain at the old
		// revision for the partition.
		case !e.staysOld():
			e.due = e.wanted && !e.Updated && staying >= r.Partition
		case left > 0:
			e.due = true
			left--
		}
	}
}

// oldRevision returns a function to call for each missing ordinal, in ascending order. The function reports whether
// the ordinal's Pod must be created at the old revision.
func (r *roster) oldRevision() func(rank int) bool {
	if r.OnDelete {
		return func(int) bool { return false }
	}
	if !r.Unordered {
		return func(rank int) bool { return rank < r.Partition }
	}
	old := 0
	for i := range r.pods {
		old += bit(r.pods[i].wanted && !r.pods[i].Updated)
	}
	return func(int) bool {
		if old < r.Partition {
			old++
			return true
		}
		return false
	}
}

// unavailable returns the number of wanted ordinals without an available Pod.
func (r *roster) unavailable() int { return r.Wanted.Len() - r.available }

// stopped reports whether neither updates nor requested deletions are carried out.
func (r *roster) stopped() bool { return r.Paused || r.OnDelete }

// inUpdateOrder calls yield for the Pods in the order of updates until yield returns false.
func (r *roster) inUpdateOrder(yield func(*entry) bool) {
	if r.updateOrder == nil {
		r.descending(yield)
		return
	}
	for _, i := range r.updateOrder {
		if !yield(&r.pods[i]) {
			return
		}
	}
}

// descending calls yield for the Pods from the highest ordinal until yield returns false. Pods in back-off come last,
// the Pod with the shortest back-off first.
func (r *roster) descending(yield func(*entry) bool) {
	var resting []*entry
	for i := range slices.Backward(r.pods) {
		switch e := &r.pods[i]; {
		case e.Rest > 0:
			resting = append(resting, e)
		case !yield(e):
			return
		}
	}
	slices.SortStableFunc(resting, func(a, b *entry) int { return cmp.Compare(a.Rest, b.Rest) })
	for _, e := range resting {
		if !yield(e) {
			return
		}
	}
}

// carryOn plans the Pods whose deletion or update has begun.
func (r *roster) carryOn() {
	for i := range r.pods {
		e := &r.pods[i]
		switch {
		case e.Health == rollout.Terminating || !e.begun():
		case e.PreDeleting && (!e.wanted || e.Health == rollout.Ended || e.Specified):
			e.act = remove
		case !e.wanted: // scaleIn will delete the Pod
		case e.Specified:
			if !r.stopped() {
				e.act = remove
			}
		case !e.due:
			e.act = cancel
		case !r.Paused:
			e.act = update
		}
	}
}

// step collects the planned actions of all Pods in a Step.
func (r *roster) step() Step {
	var count [cancel + 1]int
	for i := range r.pods {
		count[r.pods[i].act]++
	}
	list := func(what act) []int {
		if count[what] == 0 {
			return nil
		}
		return make([]int, 0, count[what])
	}
	step := Step{
		Create: r.create, Delete: list(remove), Update: list(update), Cancel: list(cancel),
		Awaited: r.awaited, Limits: r.Limits,
	}
	for e := range r.inUpdateOrder {
		if e.act == update {
			step.Update = append(step.Update, e.Ordinal)
		}
	}
	for i := range r.pods {
		if e := &r.pods[i]; e.act == cancel {
			step.Cancel = append(step.Cancel, e.Ordinal)
		}
	}
	for i := range slices.Backward(r.pods) {
		if e := &r.pods[i]; e.act == remove {
			step.Delete = append(step.Delete, e.Ordinal)
		}
	}
	return step
}

// explainWaiting adds the reasons other than a budget why Pods wait: an occupied name, a lower ordinal, a paused
// rollout, the partition.
func (r *roster) explainWaiting() {
	specified, due, kept := r.waiting()
	if !r.Parallel && r.MaxUnavailable > 1 && specified+due > 1 && !r.stopped() {
		r.Limitf(rollout.OneAtATime, r.paths().Parallel, "manage the Pods in parallel for more at a time",
			"%d Pods are to be updated or deleted in sequence, though %d may be unavailable",
			specified+due, r.MaxUnavailable)
	}
	if r.Paused && specified+due > 0 {
		r.Limitf(rollout.RolloutPaused, r.paths().Paused, "resume the rollout",
			"%d Pods are to be updated, %d to be deleted", due, specified)
	}
	if !r.OnDelete && r.Partition > 0 && due == 0 && kept > 0 {
		r.Limitf(rollout.PartitionReached, r.paths().Partition, "lower the partition to go on",
			"%d Pods are at the old revision, %d are kept there", kept, r.Partition)
	}
}

// waiting returns the number of Pods that must still be deleted on request, of Pods that must still be updated, and of
// Pods that stay at their revision. waiting also adds reasons for ordinals that other Pods occupy.
func (r *roster) waiting() (specified, due, kept int) {
	var foreign, held []int
	for i := range slices.Backward(r.pods) {
		e := &r.pods[i]
		switch {
		case !e.wanted:
		case e.NotSelected:
			foreign = append(foreign, e.Ordinal)
		case e.Health == rollout.Terminating:
			held = append(held, e.Ordinal)
		case e.Specified:
			specified++
		case e.due:
			due++
		case e.staysOld():
			kept++
		}
	}
	if n := len(foreign); n > 0 {
		r.Limitf(rollout.NotSelected, "", limits.NotSelectedRemedy,
			"ordinals whose Pod the selector does not match: %d, the first is %d", n, foreign[n-1])
	}
	if n := len(held); n > 0 {
		r.Limitf(rollout.OrdinalTerminating, "", "wait until it is gone",
			"%d Pods are terminating and will be created again, the first is %d", n, held[n-1])
	}
	return specified, due, kept
}
