package numbered_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// worldPod is a Pod of a simulated world of numbered Pods. Durations are in ticks.
type worldPod struct {
	old bool
	// starting Pods become available by themselves. Broken Pods stay unavailable until their update, or until calm
	// repairs them.
	starting int
	broken   bool
	ended    bool
	resting  bool // the ended Pod must not be replaced yet
	// terminating Pods hold their ordinal until the time is over.
	terminating int
	specified   bool
	// preDeleting and preUpdating Pods wait for a hook that takes a while.
	preDeleting, preUpdating bool
	hook                     int
	// Changes of hopeless Pods are refused until calm is called.
	hopeless bool
}

// world holds Pods, the wanted state, and a controller that acts only on Plan.
type world struct {
	rng  *rand.Rand
	spec numbered.Spec
	pods map[int]*worldPod
	// start, replicas and reserved determine the wanted ordinals.
	start, replicas         int
	reserved                map[int]bool
	inPlace                 bool
	deleteHook, updateHook  bool
	givesTime               bool // whether Starting is set, so that starting Pods differ from broken Pods
	quota                   int
	trace                   func(format string, args ...any)
	touched, created, taken map[int]bool // by the controller, since the last change by somebody else
}

func newWorld(seed uint64, trace func(string, ...any)) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 2)), trace: trace, pods: map[int]*worldPod{}, reserved: map[int]bool{}}
	w.inPlace, w.deleteHook, w.updateHook, w.givesTime = w.chance(2), w.chance(4), w.chance(4), w.chance(2)
	w.spec.Parallel = w.chance(2)
	w.spec.Unordered = w.spec.Parallel && w.chance(3)
	w.spec.UnlimitedScaleIn, w.spec.UnlimitedRepair = w.chance(4), w.chance(4)
	w.changeSize()
	w.changeBudget()
	for o := range w.spec.Wanted.All() {
		w.pods[o] = &worldPod{old: true, starting: w.rng.IntN(2) * w.rng.IntN(4)}
	}
	return w
}

func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

// changeSize changes the wanted ordinals at random.
func (w *world) changeSize() {
	switch w.rng.IntN(4) {
	case 0:
		w.start = w.rng.IntN(8)
	case 1:
		w.reserved[w.rng.IntN(12)] = true
	case 2:
		clear(w.reserved)
	}
	w.replicas = w.rng.IntN(9)
	var list []intstr.IntOrString
	for o := range w.reserved {
		list = append(list, intstr.FromInt32(int32(o)))
	}
	set, err := ordinals.Of(ordinals.Paths{Reserved: "reserved"}, w.start, w.replicas, list...)
	if err != nil {
		panic(err) // no number is out of range
	}
	w.spec.Wanted = set
	w.foreign()
}

func (w *world) changeBudget() {
	s := &w.spec
	s.Partition = w.rng.IntN(2) * w.rng.IntN(w.replicas+2)
	s.MaxUnavailable = w.rng.IntN(4)
	s.Paused, s.OnDelete = w.chance(8), w.chance(8)
	s.ScaleMaxUnavailable = nil
	if w.chance(3) {
		s.ScaleMaxUnavailable = new(w.rng.IntN(4))
	}
	if w.quota = 1000; w.chance(4) {
		w.quota = w.rng.IntN(w.replicas + 2)
	}
	w.foreign()
}

// foreign records a change of the world by somebody else. After such a change, the controller may change the same Pod
// again.
func (w *world) foreign() {
	w.touched, w.created, w.taken = map[int]bool{}, map[int]bool{}, map[int]bool{}
	w.trace("%s", ruled(w.spec))
}

// disturb simulates a random change of the world by somebody else.
func (w *world) disturb() {
	all := slices.Sorted(maps.Keys(w.pods))
	if len(all) > 0 && w.chance(3) {
		p := w.pods[all[w.rng.IntN(len(all))]]
		switch w.rng.IntN(7) {
		case 6:
			p.hopeless = !p.hopeless
		case 0, 1:
			p.broken = true
		case 2:
			p.ended, p.resting = true, w.chance(2)
		case 3:
			p.specified = true
		case 4:
			p.terminating = max(p.terminating, 1+w.rng.IntN(6)) // evicted
		case 5:
			p.starting = 1 + w.rng.IntN(3) // restarted
		}
		w.foreign()
	}
	switch w.rng.IntN(30) {
	case 0:
		w.changeSize()
	case 1, 2:
		w.changeBudget()
	case 3: // a new template
		for _, p := range w.pods {
			p.old = true
		}
		w.foreign()
	case 4: // rolled back
		for _, p := range w.pods {
			p.old = !p.old
		}
		w.foreign()
	}
}

// tick advances the time by a tick, and reports whether anything has changed.
func (w *world) tick() bool {
	changed := false
	for o, p := range w.pods {
		for _, left := range []*int{&p.starting, &p.hook} {
			if *left > 0 {
				*left--
				changed = true
			}
		}
		if p.terminating > 0 {
			changed = true
			if p.terminating--; p.terminating == 0 {
				delete(w.pods, o)
			}
		}
	}
	return changed
}

// ruled renders the fields of a spec that are set.
func ruled(s numbered.Spec) string {
	text := fmt.Sprintf("wanted %s, partition %d, maxUnavailable %d", s.Wanted, s.Partition, s.MaxUnavailable)
	if s.ScaleMaxUnavailable != nil {
		text += fmt.Sprintf(", scale %d", *s.ScaleMaxUnavailable)
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{s.Parallel, "parallel"},
		{s.Unordered, "unordered"},
		{s.Paused, "paused"},
		{s.OnDelete, "OnDelete"},
		{s.UnlimitedScaleIn, "unlimited scale-in"},
		{s.UnlimitedRepair, "unlimited repair"},
	} {
		if flag.set {
			text += ", " + flag.name
		}
	}
	return text
}

// listed renders Pods in the form of the tables.
func listed(pods []numbered.Pod) string {
	var parts []string
	for _, p := range pods {
		text := fmt.Sprint(p.Ordinal)
		for _, word := range []struct {
			set  bool
			name string
		}{
			{!p.Updated, "old"},
			{p.Updated, "new"},
			{p.Health == rollout.Unavailable, "down"},
			{p.Health == rollout.Ended, "ended"},
			{p.Resting, "resting"},
			{p.Health == rollout.Terminating, "terminating"},
			{p.Starting, "starting"},
			{p.Specified, "specified"},
			{p.PreDeleting, "predeleting"},
			{p.PreUpdating, "preupdating"},
			{p.Rest > 0, "hopeless"},
		} {
			if word.set {
				text += " " + word.name
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// restIf returns the back-off of a hopeless Pod, and zero for other Pods. Several Pods have equal back-offs.
func restIf(hopeless bool, n int) time.Duration {
	if !hopeless {
		return 0
	}
	return time.Duration(1 + n%3)
}

// members describes the Pods for Plan.
func (w *world) members() []numbered.Pod {
	var list []numbered.Pod
	for _, o := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[o]
		member := numbered.Pod{
			Ordinal: o, Updated: !p.old, Health: rollout.Available,
			Starting: w.givesTime && p.starting > 0 && !p.broken, Specified: p.specified, PreDeleting: p.preDeleting, PreUpdating: p.preUpdating,
			Rest: restIf(p.hopeless, o), Resting: p.ended && p.resting,
		}
		switch {
		case p.terminating > 0:
			member.Health = rollout.Terminating
		case p.ended:
			member.Health = rollout.Ended
		case p.starting > 0 || p.broken:
			member.Health = rollout.Unavailable
		}
		list = append(list, member)
	}
	// The order is always the same, like the order of a priority, which depends only on the Pod.
	slices.SortStableFunc(list, func(a, b numbered.Pod) int { return a.Ordinal*7%11 - b.Ordinal*7%11 })
	return list
}

// pass simulates a reconcile, and reports whether anything was changed or must be tried again.
func (w *world) pass() (bool, error) {
	members := w.members()
	step, err := numbered.Plan(w.spec, members)
	if err != nil {
		return false, err
	}
	w.trace("%s\n\t-> %s (%s)", listed(members), told(step), step.Limits)
	if err := newJudge(w.spec, members, step).verdict(); err != nil {
		return false, err
	}
	if err := w.again(members, step); err != nil {
		return false, err
	}
	acted := false
	for _, do := range w.actions(step) {
		if w.chance(20) {
			break // the action fails or the process dies; the next reconcile must finish the work
		}
		did, err := do()
		if err != nil {
			return true, err
		}
		acted = acted || did
	}
	// An unfinished step is tried again, and so is a step that waits for a hook.
	return acted || len(step.Create)+len(step.Delete)+len(step.Update)+len(step.Cancel) > 0 && !w.stuck(step), nil
}

// stuck reports whether nothing of the step can be done before time passes or the quota is raised.
func (w *world) stuck(step numbered.Step) bool {
	if len(step.Cancel) > 0 || (len(step.Create) > 0 && len(w.pods) < w.quota) {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(step.Delete, step.Update), func(o int) bool { return w.pods[o].hook == 0 })
}

// again calls Plan a second time: the result must be the same and, unless Unordered is set, must not depend on the
// order of the list.
func (w *world) again(members []numbered.Pod, want numbered.Step) error {
	list := slices.Clone(members)
	if !w.spec.Unordered {
		w.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	got, err := numbered.Plan(w.spec, list)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		return fmt.Errorf("decided again: %w (-first +second):\n%s", err, diff)
	}
	return nil
}

// actions returns the controller's actions for a step.
func (w *world) actions(step numbered.Step) []func() (bool, error) {
	var list []func() (bool, error)
	for _, o := range step.Cancel {
		list = append(list, func() (bool, error) {
			p := w.pods[o]
			p.preDeleting, p.preUpdating, p.starting = false, false, 1
			return true, w.note(w.touched, o, "taken back twice")
		})
	}
	for _, c := range step.Create {
		list = append(list, func() (bool, error) { return w.create(c) })
	}
	for _, o := range step.Delete {
		list = append(list, func() (bool, error) { return w.remove(o) })
	}
	for _, o := range step.Update {
		list = append(list, func() (bool, error) { return w.update(o) })
	}
	return list
}

// note records an action, and returns an error for a second action on the same Pod without a change by somebody else
// in between.
func (w *world) note(list map[int]bool, ordinal int, what string) error {
	if list[ordinal] {
		return fmt.Errorf("Pod %d is %s although nobody else did anything", ordinal, what)
	}
	list[ordinal] = true
	return nil
}

func (w *world) create(c numbered.Create) (bool, error) {
	if len(w.pods) >= w.quota {
		return false, nil
	}
	if w.pods[c.Ordinal] != nil {
		return false, fmt.Errorf("two Pods have ordinal %d", c.Ordinal)
	}
	w.pods[c.Ordinal] = &worldPod{old: c.Old, starting: 1 + w.rng.IntN(4)}
	return true, w.note(w.created, c.Ordinal, "created twice")
}

// remove deletes a Pod, so the Pod terminates for a while or waits for its hook.
func (w *world) remove(o int) (bool, error) {
	p := w.pods[o]
	switch {
	case p.hopeless, p.preDeleting && p.hook > 0:
		return false, nil
	case !p.preDeleting && w.deleteHook:
		p.preDeleting, p.preUpdating, p.hook = true, false, w.rng.IntN(4)
		return true, w.take(o)
	}
	var err error
	if !p.preDeleting {
		err = w.take(o)
	}
	p.terminating = 1 + w.rng.IntN(5)
	return true, err
}

// take records that the controller takes a Pod out of service. The controller must not do so if the controller itself
// has created the Pod, or taken the Pod out of service, since the last change by somebody else.
func (w *world) take(o int) error {
	if w.created[o] {
		return fmt.Errorf("Pod %d is created and taken down again although nobody else did anything", o)
	}
	return w.note(w.taken, o, "taken down twice")
}

func (w *world) update(o int) (bool, error) {
	p := w.pods[o]
	if !w.inPlace {
		return w.remove(o)
	}
	switch {
	case p.hopeless, p.preUpdating && p.hook > 0:
		return false, nil
	case !p.preUpdating && w.updateHook && !p.preDeleting:
		p.preUpdating, p.hook = true, w.rng.IntN(4)
		return true, w.take(o)
	}
	var err error
	if !p.preUpdating && !p.preDeleting {
		err = w.take(o)
	}
	*p = worldPod{starting: 1 + w.rng.IntN(4), specified: p.specified}
	return true, err
}

// calm removes all obstacles to the end of a rollout. Broken Pods stay broken if an update will repair the Pods or,
// with parallel management, if the Pods are unwanted.
func (w *world) calm() {
	s := &w.spec
	w.quota = 1000
	s.MaxUnavailable = max(s.MaxUnavailable, 1)
	s.Paused, s.OnDelete = false, false
	if limit := s.ScaleMaxUnavailable; limit != nil && *limit == 0 {
		s.ScaleMaxUnavailable = new(1)
	}
	for o, p := range w.pods {
		rank, wanted := s.Wanted.Index(o)
		mended := p.old && (rank >= s.Partition && !s.Unordered || s.Partition == 0)
		p.broken = p.broken && (!wanted && s.Parallel || wanted && mended)
		p.hopeless, p.resting = false, false
	}
	w.foreign()
}

// verify checks the end state of the world, when no further events can occur. before are the Pods at the call of
// calm.
func (w *world) verify(before map[int]worldPod) error {
	if diff := cmp.Diff(slices.Collect(w.spec.Wanted.All()), slices.Sorted(maps.Keys(w.pods))); diff != "" {
		return fmt.Errorf("it stopped with other ordinals (-want +got):\n%s", diff)
	}
	old, oldBefore := 0, 0
	for o, p := range w.pods {
		rank, _ := w.spec.Wanted.Index(o)
		was, existed := before[o]
		if !existed || was.old {
			oldBefore++
		}
		switch {
		case p.old:
			old++
			if !w.spec.Unordered && rank >= w.spec.Partition {
				return fmt.Errorf("it stopped with Pod %d at the old revision", o)
			}
		case !w.spec.Unordered && rank < w.spec.Partition && (!existed || was.old):
			return fmt.Errorf("Pod %d was taken to the new revision, the partition keeps it", o)
		}
		if p.starting > 0 || p.broken || p.ended || p.specified || p.terminating > 0 || p.preDeleting || p.preUpdating {
			return fmt.Errorf("it stopped with Pod %d as %+v", o, *p)
		}
	}
	if low := min(w.spec.Partition, oldBefore); w.spec.Unordered && (old > w.spec.Partition || old < low) {
		return fmt.Errorf("it stopped with %d old Pods, want %d to %d", old, low, w.spec.Partition)
	}
	return nil
}

// busyTicks limits the time with changes by somebody else, and quietTicks the number of simulated reconciles
// afterwards.
const (
	busyTicks  = 60
	quietTicks = 500
)

// simulate runs a rollout to its end, and returns the first violated guarantee.
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
	before := map[int]worldPod{}
	for o, p := range w.pods {
		before[o] = *p
	}
	for range quietTicks {
		acted, err := w.pass()
		if err != nil {
			return err
		}
		if ticked := w.tick(); !acted && !ticked {
			return w.verify(before)
		}
	}
	return errors.New("it does not end")
}

// TestWholeRollouts simulates thousands of rollouts with random changes by somebody else.
func TestWholeRollouts(t *testing.T) {
	const seeds = 4000
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			if err := simulate(seed, func(string, ...any) {}); err != nil {
				_ = simulate(seed, t.Logf)
				t.Fatalf("%v\nreplay with: go test ./rollout/numbered -run 'TestWholeRollouts/seed=%d$'", err, seed)
			}
		})
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

// FuzzPlan checks single steps against the rules, for Pods in any state, including states that no controller would
// cause.
func FuzzPlan(f *testing.F) {
	f.Add(uint8(5), uint8(0), uint8(2), int8(-1), uint8(0b1), []byte{0x01, 0x0a, 0x01, 0x09, 0x29})
	f.Add(uint8(4), uint8(1), uint8(1), int8(-1), uint8(0b1), []byte{0x01, 0x01, 0x11, 0x81, 0x03})
	f.Add(uint8(9), uint8(3), uint8(2), int8(2), uint8(0b11), []byte{0x41, 0x01, 0x02, 0x12, 0x00, 0x00, 0x34, 0x51})
	f.Add(uint8(6), uint8(0), uint8(1), int8(-1), uint8(0b0), []byte{0x01, 0x02, 0x01, 0x11, 0x14, 0x01, 0x21})
	f.Add(uint8(8), uint8(0), uint8(0), int8(1), uint8(0b100001), []byte{0x03, 0x13, 0x24, 0x64, 0x01, 0x01})
	f.Fuzz(func(t *testing.T, replicas, partition, maxUnavailable uint8, scale int8, flags uint8, states []byte) {
		s := numbered.Spec{
			Partition: int(partition), MaxUnavailable: int(maxUnavailable), Parallel: flags&1 > 0, Unordered: flags&3 == 3,
			Paused: flags&4 > 0, OnDelete: flags&8 > 0, UnlimitedScaleIn: flags&16 > 0, UnlimitedRepair: flags&32 > 0,
			Wanted: wanted(t, int(flags>>6), int(replicas), "3", "7-9"),
		}
		if scale >= 0 {
			s.ScaleMaxUnavailable = new(int(scale))
		}
		var pods []numbered.Pod
		for o, b := range states[:min(len(states), 300)] {
			if health := rollout.Health(b & 7); health >= rollout.Available && health <= rollout.Terminating {
				pods = append(pods, numbered.Pod{
					Ordinal: o, Health: health, Updated: b&16 > 0, Specified: b&32 > 0, PreDeleting: b&64 > 0, PreUpdating: b&128 > 0,
					Starting: b&8 > 0 && health != rollout.Available, Rest: restIf(b&8 > 0 && health == rollout.Available || b&24 == 24, o), Resting: b&8 > 0 && health == rollout.Ended,
				})
			}
		}
		step, err := numbered.Plan(s, pods)
		if err != nil {
			t.Fatal(err)
		}
		if err := newJudge(s, pods, step).verdict(); err != nil {
			t.Errorf("%v\n%s\n%s\n\t-> %s (%s)", err, ruled(s), listed(pods), told(step), step.Limits)
		}
	})
}
