package rollout_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/workloadkit/workloadkit/rollout"
)

// method is how the simulated controller brings a Pod to another revision.
type method int

const (
	replaceInPlace  method = iota
	deleteAtOnce           // deletes the Pod in the same reconcile, within the budget
	markForDeletion        // marks the Pod, and the next reconcile deletes the Pod, as in OpenKruise
)

// simPod is a Pod of the simulated world.
type simPod struct {
	id  int
	old bool
	// starting is the number of ticks until the Pod is available. A Pod about to be available is ready already
	// (minReadySeconds).
	starting int
	// crashed Pods stay unavailable until their update, or until they restart.
	crashed bool
	// specified says that a user has requested the Pod's deletion. A dying Pod waits for its hook, for hook ticks.
	specified, dying bool
	hook             int
}

func (p *simPod) available() bool { return p.starting == 0 && !p.crashed && !p.dying }

// consumes reports whether the deletion of the Pod uses up budget.
func (p *simPod) consumes() bool { return p.starting <= 1 && !p.crashed && !p.dying }

// world holds Pods, the wanted state, and a controller that acts only on Plan and ToUpdate.
type world struct {
	rng    *rand.Rand
	spec   rollout.Spec
	method method
	hooks  bool
	pods   []*simPod
	nextID int
	// quota is the largest number of Pods that may exist.
	quota int
	// shuffled is set if the update order ignores availability, as a priority strategy may.
	shuffled bool
	// exact is set as long as the partition has never required more old Pods than existed. The number of old Pods at the
	// end is then known even if Rollback is false.
	exact bool
	trace func(format string, args ...any)
	// made and dropped say for each revision whether the controller has created (made) or deleted (dropped) Pods
	// since the last change by somebody else.
	made, dropped [2]bool
}

func index(old bool) int {
	if old {
		return 1
	}
	return 0
}

func newWorld(seed uint64, trace func(string, ...any)) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), trace: trace, exact: true}
	w.method = method(w.rng.IntN(3))
	w.hooks = w.rng.IntN(3) == 0
	w.shuffled = w.rng.IntN(3) == 0
	w.spec.Rollback = w.rng.IntN(3) == 0
	w.spec.InPlace = w.method == replaceInPlace && w.rng.IntN(2) == 0
	w.spec.ExcludePreDeleting = w.hooks && w.rng.IntN(3) == 0
	w.spec.OneRevision = w.rng.IntN(12) == 0
	w.changeSpec()
	for range w.spec.Replicas {
		w.add(true).starting = w.rng.IntN(2) * w.rng.IntN(4)
	}
	w.noteSpec()
	return w
}

func (w *world) changeSpec() {
	s := &w.spec
	s.Replicas = w.rng.IntN(13)
	s.Partition = w.rng.IntN(2) * w.rng.IntN(s.Replicas+1)
	s.MaxUnavailable = w.rng.IntN(2) * w.rng.IntN(s.Replicas+1)
	s.MaxSurge = w.rng.IntN(2) * w.rng.IntN(6)
	s.ScaleMaxUnavailable = nil
	if w.rng.IntN(3) == 0 {
		s.ScaleMaxUnavailable = new(w.rng.IntN(4))
	}
	w.quota = math.MaxInt
	if w.rng.IntN(4) == 0 {
		w.quota = w.rng.IntN(s.Replicas + s.MaxSurge + 1)
	}
	w.noteSpec()
	w.trace("wanted: %+v, method %d, hooks %v, quota %d", *s, w.method, w.hooks, w.quota)
}

func (w *world) noteSpec() {
	w.foreign()
	if len(w.pods) > 0 && w.count(func(p *simPod) bool { return p.old && !p.dying }) < w.spec.Partition {
		w.exact = false
	}
}

// foreign records a change of the world by somebody else. After such a change, the controller may reverse its
// actions.
func (w *world) foreign() { w.made, w.dropped = [2]bool{}, [2]bool{} }

func (w *world) add(old bool) *simPod {
	w.nextID++
	p := &simPod{id: w.nextID, old: old}
	w.pods = append(w.pods, p)
	return p
}

func (w *world) remove(p *simPod) {
	w.pods = slices.DeleteFunc(w.pods, func(q *simPod) bool { return p == q })
}

func (w *world) count(test func(*simPod) bool) int {
	n := 0
	for _, p := range w.pods {
		if test(p) {
			n++
		}
	}
	return n
}

func (w *world) counts() rollout.Counts {
	var c rollout.Counts
	for _, p := range w.pods {
		g := &c.New
		if p.old {
			g = &c.Old
		}
		g.Total++
		switch {
		case p.dying:
			g.PreDeleting++
		case p.specified:
			g.Specified++
			if !p.available() {
				g.SpecifiedUnavailable++
			}
		case !p.available():
			g.Unavailable++
		}
	}
	return c
}

// disturb simulates a random change of the world by somebody else.
func (w *world) disturb() {
	if len(w.pods) > 0 {
		p := w.pods[w.rng.IntN(len(w.pods))]
		switch w.rng.IntN(24) {
		case 0, 1:
			p.crashed = true
			w.foreign()
		case 2:
			p.specified = true
			w.exact = w.exact && !p.old // the Pod may be deleted as a surplus Pod instead of a new Pod
			w.foreign()
		case 3:
			w.remove(p)
			w.noteSpec()
		case 4:
			p.starting = 1 + w.rng.IntN(3)
			w.foreign()
		}
	}
	if w.rng.IntN(20) == 0 {
		w.changeSpec()
	}
}

// calm removes all obstacles to the end of a rollout.
func (w *world) calm() {
	s := &w.spec
	w.quota = math.MaxInt
	if s.MaxUnavailable+s.MaxSurge == 0 {
		s.MaxUnavailable = 1
	}
	if limit := s.ScaleMaxUnavailable; limit != nil && *limit == 0 {
		s.ScaleMaxUnavailable = new(1)
	}
	// Crashed Pods stay crashed only if the rollout will replace each of them and no deletion is requested, because
	// crashed Pods use up the budget that a requested deletion needs.
	keep := s.Partition == 0 && w.count(func(p *simPod) bool { return p.specified }) == 0
	for _, p := range w.pods {
		p.crashed = p.crashed && keep && p.old
	}
	w.noteSpec()
}

// tick advances the time by a tick, and reports whether anything has changed.
func (w *world) tick() bool {
	changed := false
	for _, p := range w.pods {
		if p.starting > 0 {
			p.starting--
			changed = true
		}
		if p.dying && p.hook > 0 {
			p.hook--
			changed = true
		}
	}
	return changed
}

func (w *world) start(p *simPod) { p.starting = 1 + w.rng.IntN(4) }

// pass simulates a reconcile: cancel deletions, or create, or delete, or update Pods. pass reports whether anything
// was changed.
func (w *world) pass() (bool, error) {
	if w.cancel() {
		return true, nil
	}
	step := rollout.Plan(w.spec, w.counts())
	w.trace("%+v -> %+v", w.counts(), step)
	if step.Create > 0 && len(w.pods) < w.quota { // a refused creation does not prevent other actions
		return true, w.create(step)
	}
	if acted, err := w.delete(step); acted || err != nil {
		return acted, err
	}
	return w.update(step)
}

// cancel cancels the deletion of wanted Pods that wait for their hook.
func (w *world) cancel() bool {
	n := w.spec.Replicas - len(w.pods) + w.count(func(p *simPod) bool { return p.specified || p.dying })
	acted := false
	for _, p := range w.pods {
		if n > 0 && p.dying && !p.specified {
			p.dying, acted = false, true
			w.start(p)
			n--
		}
	}
	return acted
}

func (w *world) create(step rollout.Step) error {
	created := min(step.Create, w.quota-len(w.pods))
	for i := range created {
		w.start(w.add(i < step.CreateOld))
	}
	w.made[index(true)] = w.made[index(true)] || step.CreateOld > 0
	w.made[index(false)] = w.made[index(false)] || created > step.CreateOld
	has := len(w.pods)
	if w.spec.ExcludePreDeleting {
		has -= w.count(func(p *simPod) bool { return p.dying })
	}
	if limit := w.spec.Replicas + w.spec.MaxSurge; has > limit {
		return fmt.Errorf("created up to %d Pods, more than %d", has, limit)
	}
	return w.oscillates()
}

func (w *world) oscillates() error {
	for _, old := range []bool{true, false} {
		if w.made[index(old)] && w.dropped[index(old)] {
			return fmt.Errorf("Pods were created and scaled in again although nobody else did anything (old: %v)", old)
		}
	}
	return nil
}

// delete finishes deletions with a released hook, then deletes specified Pods, then surplus Pods.
func (w *world) delete(step rollout.Step) (bool, error) {
	acted := false
	for _, p := range slices.Clone(w.pods) {
		if p.dying && p.hook == 0 {
			w.remove(p)
			acted = true
		}
	}
	if acted {
		return true, nil
	}
	budget := step.DeleteReady
	if asked := w.count(func(p *simPod) bool { return p.dying || p.specified }); asked > 0 {
		return w.deleteAll(w.pick(len(w.pods), func(p *simPod) bool { return p.specified && !p.dying }), &budget)
	}
	victims := slices.Concat(
		w.pick(step.DeleteOld, func(p *simPod) bool { return p.old }),
		w.pick(step.Delete-step.DeleteOld, func(p *simPod) bool { return !p.old }),
	)
	if len(victims) != step.Delete {
		return false, fmt.Errorf("step deletes %d Pods, %d old, of which there are %d", step.Delete, step.DeleteOld, len(victims))
	}
	kinds := w.dropped
	for _, p := range victims {
		kinds[index(p.old)] = true
	}
	acted, err := w.deleteAll(victims, &budget)
	if acted {
		w.dropped = kinds
	}
	return acted, errors.Join(err, w.oscillates())
}

// pick returns up to n Pods for which test returns true. Unavailable Pods come first.
func (w *world) pick(n int, test func(*simPod) bool) []*simPod {
	var out []*simPod
	for _, p := range w.pods {
		if test(p) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *simPod) int { return index(a.available()) - index(b.available()) })
	return out[:min(n, len(out))]
}

func (w *world) deleteAll(pods []*simPod, budget *int) (acted bool, err error) {
	before := w.count((*simPod).available)
	for _, p := range pods {
		if p.consumes() {
			if *budget == 0 {
				continue
			}
			*budget--
		}
		acted = true
		w.condemn(p)
	}
	return acted, w.check("deleting", before)
}

// condemn deletes a Pod, or makes the Pod wait for its hook.
func (w *world) condemn(p *simPod) {
	if !w.hooks {
		w.remove(p)
		return
	}
	p.dying, p.hook = true, 1+w.rng.IntN(3)
}

// check compares the number of available Pods before the controller's action with the present number.
func (w *world) check(action string, before int) error {
	after, bound := w.count((*simPod).available), w.spec.Replicas-w.spec.MaxUnavailable
	if after < min(before, bound) {
		return fmt.Errorf("%s took available Pods from %d to %d, the bound is %d", action, before, after, bound)
	}
	return nil
}

// update brings Pods to their wanted revision, within the budget.
func (w *world) update(step rollout.Step) (bool, error) {
	back := step.Back
	// If Pods are marked for deletion, a marked Pod is chosen again until the Pod is deleted. Otherwise too many Pods
	// would be marked.
	candidates := w.pick(len(w.pods), func(p *simPod) bool {
		return p.old != back && !p.dying && (!p.specified || w.method == markForDeletion)
	})
	if w.shuffled {
		w.rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	}
	before, acted := w.count((*simPod).available), false
	for _, p := range rollout.ToUpdate(step, w.counts(), candidates, (*simPod).available) {
		if !p.specified {
			w.replace(p, back)
			acted = true
		}
	}
	return acted, w.check("updating", before)
}

func (w *world) replace(p *simPod, back bool) {
	switch w.method {
	case replaceInPlace:
		p.old, p.crashed = back, false
		w.start(p)
	case markForDeletion:
		p.specified = true
	default:
		p.specified = w.hooks // so that cancel does not cancel the deletion
		w.condemn(p)
	}
}

// verify checks the world when no further events can occur.
func (w *world) verify() error {
	old := w.count(func(p *simPod) bool { return p.old })
	total, down := len(w.pods), w.count(func(p *simPod) bool { return !p.available() || p.specified })
	switch {
	case total != w.spec.Replicas || down > 0:
		return fmt.Errorf("it stopped with %d of %d Pods, %d of them unavailable or to be deleted", total, w.spec.Replicas, down)
	case old > w.spec.Partition:
		return fmt.Errorf("it stopped with %d old Pods, the partition keeps %d", old, w.spec.Partition)
	case old < w.spec.Partition && !w.spec.OneRevision && (w.spec.Rollback || w.exact):
		return fmt.Errorf("it stopped with %d old Pods, the partition keeps %d", old, w.spec.Partition)
	}
	return nil
}

// busyTicks limits the time with changes by somebody else, and quietTicks the number of simulated reconciles
// afterwards.
const (
	busyTicks  = 60
	quietTicks = 500
)

// simulate runs a rollout to its end and returns the first violated guarantee.
func simulate(seed uint64, trace func(string, ...any)) error {
	w := newWorld(seed, trace)
	for range w.rng.IntN(busyTicks) {
		w.disturb()
		w.tick()
		if _, err := w.pass(); err != nil {
			return err
		}
	}
	w.calm()
	trace("quiet from now on: %+v", w.spec)
	for range quietTicks {
		acted, err := w.pass()
		if err != nil {
			return err
		}
		if ticked := w.tick(); !acted && !ticked {
			return w.verify()
		}
	}
	return errors.New("it does not end")
}

// whole runs a seed and, after a failure, again with a trace.
func whole(t *testing.T, seed uint64) {
	if err := simulate(seed, func(string, ...any) {}); err != nil {
		_ = simulate(seed, t.Logf)
		t.Fatalf("%v\nreplay with: go test ./rollout -run 'TestWholeRollouts/seed=%d$'", err, seed)
	}
}

// TestWholeRollouts simulates thousands of rollouts with random changes by somebody else.
func TestWholeRollouts(t *testing.T) {
	const seeds = 4000
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { whole(t, seed) })
	}
}

func FuzzWholeRollouts(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(seed << 32) // shifted, so that no seed is a seed of TestWholeRollouts
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		if err := simulate(seed, func(string, ...any) {}); err != nil {
			_ = simulate(seed, t.Logf)
			t.Fatal(err) // the fuzzer prints the name of the file with the input
		}
	})
}
