package pernode_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// daemonPod is a Pod of a simulated world with a single Pod per Node. Durations are in ticks.
type daemonPod struct {
	node     string
	age      int // the tick of the Pod's creation
	revision int
	// After these numbers of ticks, an unbound Pod is scheduled, a starting Pod becomes ready, and a warm Pod becomes
	// available. Broken Pods stay unready until their update, or until calm repairs them.
	unbound, starting, warm int
	broken                  bool
	ended                   bool
	resting                 int // ticks for which an ended Pod must be kept
	terminating             int
	preDeleting             bool
	hook                    int  // ticks for which the Pod waits for its hook
	hopeless                bool // changes of the Pod are refused until calm is called
	// since is the value of world.foreign when the controller last created or updated the Pod; 0 after a change of the
	// Pod by somebody else.
	since int
}

func (p *daemonPod) runs() bool   { return p.terminating == 0 && !p.ended }
func (p *daemonPod) ready() bool  { return p.starting == 0 && !p.broken && !p.ended }
func (p *daemonPod) serves() bool { return p.runs() && p.ready() && p.warm == 0 && !p.preDeleting }

// world holds Nodes, Pods, the wanted state, and a controller that acts only on Plan.
type world struct {
	rng        *rand.Rand
	spec       pernode.Spec
	nodes      map[string]*pernode.Node
	pods       map[string]*daemonPod
	revision   int
	now        int
	inPlace    bool
	deleteHook bool
	trace      func(format string, args ...any)
	// foreign counts changes of the world by somebody else. After such a change, the controller may change the same Pod
	// again.
	foreign int
}

func newWorld(seed uint64, trace func(string, ...any)) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 4)), trace: trace, nodes: map[string]*pernode.Node{}, pods: map[string]*daemonPod{}, revision: 1, foreign: 1,
	}
	w.inPlace, w.deleteHook, w.spec.LeaveUnfit = w.chance(2), w.chance(4), w.chance(2)
	for range w.rng.IntN(9) {
		w.changeNode()
	}
	w.changeSpec()
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		if !w.chance(5) {
			w.add(name, w.rng.IntN(2)).since = 0
		}
	}
	return w
}

func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) add(node string, revision int) *daemonPod {
	w.now++
	p := &daemonPod{
		node: node, age: w.now, revision: revision, unbound: w.rng.IntN(2), starting: 1 + w.rng.IntN(4), warm: w.rng.IntN(2) * w.rng.IntN(4), since: w.foreign,
	}
	w.pods[fmt.Sprintf("%s/%03d", node, w.now)] = p
	return p
}

// changeNode adds, changes or removes a Node.
func (w *world) changeNode() {
	name := fmt.Sprintf("n%d", w.rng.IntN(10))
	node := pernode.Node{Name: name, Run: !w.chance(5), Continue: true, Excluded: w.chance(6)}
	if !node.Run {
		node.Continue = w.chance(2)
	}
	w.nodes[name] = &node
	if w.chance(8) {
		delete(w.nodes, name)
	}
	w.foreign++
}

func (w *world) changeSpec() {
	s := &w.spec
	s.Partition = w.rng.IntN(2) * w.rng.IntN(len(w.nodes)+2)
	s.MaxUnavailable, s.MaxSurge = w.rng.IntN(4), w.rng.IntN(2)*w.rng.IntN(4)
	s.Paused, s.OnDelete, s.Progressive = w.chance(8), w.chance(8), w.chance(4)
	w.foreign++
	w.trace("%s", ruled(*s))
}

// disturb simulates a random change of the world by somebody else.
func (w *world) disturb() {
	if names := slices.Sorted(maps.Keys(w.pods)); len(names) > 0 && w.chance(3) {
		p := w.pods[names[w.rng.IntN(len(names))]]
		switch w.rng.IntN(7) {
		case 0, 1:
			p.broken = true
		case 2:
			p.ended, p.resting = true, w.rng.IntN(3)
		case 3:
			p.terminating = max(p.terminating, 1+w.rng.IntN(6)) // evicted
		case 4:
			p.starting = 1 + w.rng.IntN(3) // restarted
		case 5:
			p.hopeless = !p.hopeless
		case 6: // a further Pod is adopted
			w.add(p.node, p.revision).since = 0
		}
		w.foreign++
	}
	switch w.rng.IntN(24) {
	case 0, 1, 2:
		w.changeNode()
	case 3, 4:
		w.changeSpec()
	case 5: // a new template
		w.revision++
		w.foreign++
	case 6: // rolled back
		w.revision = max(w.revision-1, 1)
		w.foreign++
	}
}

// tick advances the time by a tick, and reports whether anything has changed.
func (w *world) tick() bool {
	changed := false
	for name, p := range w.pods {
		left := []*int{&p.unbound, &p.resting, &p.hook}
		if w.nodes[p.node] == nil {
			if left = left[1:]; p.unbound == 0 && p.terminating == 0 { // the Pod garbage collector deletes Pods of lost Nodes
				p.terminating = 1 + p.age%6
			}
		}
		switch {
		case p.terminating > 0:
			changed = true
			if p.terminating--; p.terminating == 0 {
				delete(w.pods, name)
			}
		case p.starting > 0:
			left = append(left, &p.starting)
		case !p.broken:
			left = append(left, &p.warm)
		}
		for _, n := range left {
			if *n > 0 {
				*n--
				changed = true
			}
		}
	}
	return changed
}

// members describes Nodes and Pods for Plan, in random order.
func (w *world) members() (nodes []pernode.Node, pods []pernode.Pod) {
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		nodes = append(nodes, *w.nodes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[name]
		pod := pernode.Pod{
			Name: name, Node: p.node, Scheduled: p.unbound == 0, Created: began.Add(time.Duration(p.age) * time.Second), Updated: p.revision == w.revision,
			Health: rollout.Unavailable, Ready: p.ready(), Resting: p.resting > 0, PreDeleting: p.preDeleting,
		}
		if p.hopeless { // several Pods have equal back-offs
			pod.Rest = time.Duration(1 + p.since%3)
		}
		switch {
		case p.terminating > 0:
			pod.Health = rollout.Terminating
		case p.ended:
			pod.Health = rollout.Ended
		case p.ready() && p.warm == 0:
			pod.Health = rollout.Available
		}
		pods = append(pods, pod)
	}
	w.rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	w.rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	return nodes, pods
}

// agree compares a step with the reference implementation, and checks that no action is forbidden.
func agree(s pernode.Spec, nodes []pernode.Node, pods []pernode.Pod) (pernode.Step, error) {
	step, err := pernode.Plan(s, nodes, pods)
	if err != nil {
		return step, err
	}
	if err := verdict(s, nodes, pods, step); err != nil {
		return step, err
	}
	reference := newWalker(s, nodes, pods)
	want, got := reference.plan(), stepNames(step, pods)
	slices.Sort(want.Delete)
	slices.Sort(got.Delete)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()) + cmp.Diff(reference.totals(), step.Totals); diff != "" {
		return step, fmt.Errorf("step (-reference +got):\n%s", diff)
	}
	return step, nil
}

// pass simulates a reconcile, and reports whether anything was changed or must be tried again.
func (w *world) pass() (bool, error) {
	nodes, pods := w.members()
	step, err := agree(w.spec, nodes, pods)
	w.trace("%s\n\t-> %s (%s)", listed(nodes, pods), told(step, pods), step.Limits)
	if err != nil {
		return false, err
	}
	acted := false
	for _, do := range w.actions(step, pods) {
		if w.chance(20) {
			return true, nil // the action fails or the process dies; the next reconcile must finish the work
		}
		did, err := do()
		if err != nil {
			return true, err
		}
		acted = acted || did
	}
	return acted, nil
}

// actions returns the controller's actions for a step, in random order.
func (w *world) actions(step pernode.Step, pods []pernode.Pod) []func() (bool, error) {
	var list []func() (bool, error)
	for _, node := range step.Create {
		list = append(list, func() (bool, error) {
			running := 0
			for _, p := range w.pods {
				if p.node == node && p.runs() {
					running++
				}
			}
			if running > 1 || running > 0 && w.spec.MaxSurge == 0 {
				return true, fmt.Errorf("Node %s gets one more Pod beside %d", node, running)
			}
			w.add(node, w.revision)
			return true, nil
		})
	}
	for _, i := range step.Delete {
		list = append(list, func() (bool, error) { return w.remove(pods[i].Name) })
	}
	for _, i := range step.Update {
		list = append(list, func() (bool, error) { return w.update(pods[i].Name) })
	}
	w.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// take returns an error if the controller takes a Pod out of service that the controller has created or updated since
// the last change by somebody else.
func (w *world) take(name string) error {
	if w.pods[name].since == w.foreign {
		return fmt.Errorf("Pod %s is created or updated, and taken down again, although nobody else did anything", name)
	}
	return nil
}

// remove deletes a Pod, so the Pod terminates for a while or waits for its hook.
func (w *world) remove(name string) (bool, error) {
	p := w.pods[name]
	switch {
	case p.hopeless, p.preDeleting && p.hook > 0:
		return false, nil
	case !p.preDeleting && w.deleteHook:
		p.preDeleting, p.hook = true, w.rng.IntN(4)
		return true, w.take(name)
	}
	var err error
	if !p.preDeleting {
		err = w.take(name)
	}
	p.terminating = 1 + w.rng.IntN(5)
	return true, err
}

func (w *world) update(name string) (bool, error) {
	p := w.pods[name]
	switch {
	case p.hopeless:
		return false, nil
	case !w.inPlace:
		return w.remove(name)
	}
	err := w.take(name)
	p.revision, p.since, p.broken, p.starting = w.revision, w.foreign, false, 1+w.rng.IntN(4)
	return true, err
}

// calm removes all obstacles to the end of a rollout. Broken old Pods stay broken if an update will repair the Pods.
func (w *world) calm() {
	s := &w.spec
	s.Paused, s.OnDelete, s.MaxUnavailable = false, false, max(s.MaxUnavailable, 1)
	for _, p := range w.pods {
		if p.hopeless = false; p.revision == w.revision {
			p.broken = false
		}
	}
	w.foreign++
	w.trace("calm: %s", ruled(*s))
}

// verify checks the end of a rollout against the wanted state.
func (w *world) verify() error {
	nodes, pods := w.members()
	walk := newWalker(w.spec, nodes, pods)
	without, fresh := 0, 0
	for _, name := range walk.names {
		node, all := w.nodes[name], walk.on(name)
		switch {
		case node.Run && len(all) == 0:
			without++
			continue
		case len(all) > 1, !node.Continue && len(all) > 0:
			return fmt.Errorf("it stopped with %d Pods on Node %s, which is %+v", len(all), name, *node)
		case len(all) == 0:
			continue
		}
		p := w.pods[pods[all[0]].Name]
		if p.revision == w.revision && node.Run {
			fresh++
		}
		switch {
		case p.revision == w.revision && !p.serves(), p.terminating > 0, p.preDeleting, p.ended:
			return fmt.Errorf("it stopped with a Pod on Node %s as %+v", name, *p)
		case p.revision != w.revision && w.spec.Partition == 0 && node.Run && !node.Excluded:
			return fmt.Errorf("it stopped with an old Pod on Node %s", name)
		}
	}
	for _, name := range walk.part() {
		if _, due := walk.lone(name); due && (w.spec.MaxSurge == 0 || w.nodes[name].Run) {
			return fmt.Errorf("it stopped with an old Pod on Node %s, which takes part", name)
		}
	}
	for name, p := range w.pods {
		if w.nodes[p.node] == nil {
			return fmt.Errorf("it stopped with Pod %s of Node %s, which is not there", name, p.node)
		}
	}
	wanted := walk.totals().Desired
	if kept := w.spec.Progressive && w.spec.Partition > 0; without > 0 && (!kept || fresh < wanted-w.spec.Partition) {
		return fmt.Errorf("it stopped with %d of %d Nodes without a Pod, and %d new ones", without, wanted, fresh)
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

// TestWholeRollouts simulates thousands of rollouts with random changes by somebody else.
func TestWholeRollouts(t *testing.T) {
	const seeds = 3000
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			if err := simulate(seed, func(string, ...any) {}); err != nil {
				_ = simulate(seed, t.Logf)
				t.Fatalf("%v\nreplay with: go test ./rollout/pernode -run 'TestWholeRollouts/seed=%d$'", err, seed)
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

// drawn decodes Nodes and Pods from bytes: a byte for each Node, two bytes for each Pod. A Pod's first byte gives its
// Node.
func drawn(nodeBytes, podBytes []byte) (nodes []pernode.Node, pods []pernode.Pod) {
	for i, b := range nodeBytes[:min(len(nodeBytes), 40)] {
		node := pernode.Node{Name: fmt.Sprintf("n%02d", i), Run: b&1 == 0, Continue: b&2 == 0, Excluded: b&4 > 0}
		nodes = append(nodes, node)
	}
	for i := 0; i+1 < min(len(podBytes), 160); i += 2 {
		b := podBytes[i+1]
		pod := pernode.Pod{
			Created: began.Add(time.Duration(i*7%5) * time.Minute), Health: rollout.Health(1 + b&3), Updated: b&4 > 0, PreDeleting: b&8 > 0,
			Resting: b&16 > 0, Rest: time.Duration(b & 32), Scheduled: b&64 == 0, Ready: b&128 == 0,
		}
		switch at := int(podBytes[i]) % (len(nodes) + 2); {
		case at < len(nodes):
			pod.Node = nodes[at].Name
		case at == len(nodes):
			pod.Node = "gone"
		}
		pod.Name = fmt.Sprintf("%s/%02d", pod.Node, i/2)
		pods = append(pods, pod)
	}
	return nodes, pods
}

// FuzzPlan checks single steps against the reference and the rules, for Pods in any state, including states that no
// controller would cause.
func FuzzPlan(f *testing.F) {
	f.Add(uint8(0), uint8(1), uint8(0), uint8(0), []byte{0, 0, 0}, []byte{0, 0x00, 1, 0x00, 2, 0x00})
	f.Add(uint8(2), uint8(9), uint8(0), uint8(0), []byte{0, 4, 0, 3, 1}, []byte{0, 0x00, 1, 0x04, 2, 0x01, 3, 0x00, 4, 0x20})
	f.Add(uint8(1), uint8(0), uint8(2), uint8(0), []byte{0, 0, 0, 0}, []byte{0, 0x00, 0, 0x05, 1, 0x08, 1, 0x00, 2, 0x12, 3, 0x03})
	f.Add(uint8(3), uint8(1), uint8(0), uint8(0b0100), []byte{0, 0, 0, 0, 0, 0}, []byte{5, 0x04, 6, 0x40, 7, 0x00})
	f.Add(uint8(0), uint8(2), uint8(0), uint8(0b1001), []byte{1, 0, 3}, []byte{0, 0x00, 0, 0x44, 1, 0x09, 2, 0x02})
	f.Fuzz(func(t *testing.T, partition, maxUnavailable, maxSurge, flags uint8, nodeBytes, podBytes []byte) {
		s := pernode.Spec{
			Partition: int(partition), MaxUnavailable: int(maxUnavailable), MaxSurge: int(maxSurge),
			Paused: flags&1 > 0, OnDelete: flags&2 > 0, Progressive: flags&4 > 0, LeaveUnfit: flags&8 > 0,
		}
		nodes, pods := drawn(nodeBytes, podBytes)
		step, err := agree(s, nodes, pods)
		if err != nil {
			t.Fatalf("%v\n%s\n%s\n\t-> %s (%s)", err, ruled(s), listed(nodes, pods), told(step, pods), step.Limits)
		}
		// The order of the input must not matter.
		slices.Reverse(nodes)
		reversed := slices.Clone(pods)
		slices.Reverse(reversed)
		again, err := pernode.Plan(s, nodes, reversed)
		if diff := cmp.Diff(readWhole(step, pods), readWhole(again, reversed)); err != nil || diff != "" {
			t.Errorf("in another order: %v (-first +second):\n%s\n%s\n%s", err, diff, ruled(s), listed(nodes, pods))
		}
	})
}
