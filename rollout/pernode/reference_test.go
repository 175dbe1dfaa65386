package pernode_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// walker is a reference implementation of Plan, Node after Node and rule after rule, without regard to time and
// memory.
type walker struct {
	pernode.Spec

	nodes map[string]pernode.Node
	pods  []pernode.Pod
	// names of the Nodes, ascending.
	names []string
}

func newWalker(s pernode.Spec, nodes []pernode.Node, pods []pernode.Pod) *walker {
	w := &walker{Spec: s, nodes: map[string]pernode.Node{}, pods: pods}
	for _, node := range nodes {
		node.Continue = node.Continue || node.Run
		w.nodes[node.Name] = node
	}
	w.names = slices.Sorted(maps.Keys(w.nodes))
	return w
}

func (w *walker) downward() []string {
	names := slices.Clone(w.names)
	slices.Reverse(names)
	return names
}

// on returns the Pods of a Node for which all tests return true, the oldest first.
func (w *walker) on(node string, tests ...func(pernode.Pod) bool) []int {
	var found []int
	for i, p := range w.pods {
		if p.Node == node && !slices.ContainsFunc(tests, func(test func(pernode.Pod) bool) bool { return !test(p) }) {
			found = append(found, i)
		}
	}
	unscheduled := func(p pernode.Pod) int {
		if p.Scheduled {
			return 0
		}
		return 1
	}
	slices.SortFunc(found, func(i, j int) int {
		a, b := w.pods[i], w.pods[j]
		return cmp.Or(unscheduled(a)-unscheduled(b), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return found
}

func runs(p pernode.Pod) bool {
	return p.Health == rollout.Available || p.Health == rollout.Unavailable
}
func isNew(p pernode.Pod) bool    { return p.Updated }
func isOld(p pernode.Pod) bool    { return !p.Updated }
func isThere(p pernode.Pod) bool  { return p.Health != rollout.Terminating }
func hasEnded(p pernode.Pod) bool { return p.Health == rollout.Ended }
func leaving(p pernode.Pod) bool  { return p.PreDeleting }
func staying(p pernode.Pod) bool  { return !p.PreDeleting }
func serves(p pernode.Pod) bool {
	return p.Health == rollout.Available && !p.PreDeleting
}

// ambiguous reports whether a Node has several running Pods of the same revision.
func (w *walker) ambiguous(node string) bool {
	return len(w.on(node, runs, isNew)) > 1 || len(w.on(node, runs, isOld)) > 1
}

func (w *walker) totals() (t pernode.Totals) {
	for _, name := range w.names {
		all := w.on(name)
		if !w.nodes[name].Run {
			if len(all) > 0 {
				t.Misscheduled++
			}
			continue
		}
		t.Desired++
		if len(all) == 0 {
			continue
		}
		t.Current++
		oldest := w.pods[slices.Concat(w.on(name, runs), all)[0]]
		if oldest.Ready {
			t.Ready++
		}
		if serves(oldest) {
			t.Available++
		}
		if oldest.Updated {
			t.Updated++
		}
	}
	return t
}

// plan is a step with names in place of indexes: the Nodes for new Pods and the Pods to update in order, and the Pods
// to delete sorted.
type plan struct{ Create, Delete, Update []string }

func (w *walker) plan() plan {
	var p plan
	waiting := w.waiting()
	for _, name := range w.names {
		for _, i := range w.surplus(name) {
			p.Delete = append(p.Delete, w.pods[i].Name)
		}
		if w.isFree(name) && !slices.Contains(waiting, name) {
			p.Create = append(p.Create, name)
		}
	}
	for _, pod := range w.pods {
		if _, known := w.nodes[pod.Node]; !known && pod.Node != "" && !pod.Scheduled && isThere(pod) {
			p.Delete = append(p.Delete, pod.Name)
		}
	}
	if !w.Paused && !w.OnDelete {
		if w.MaxSurge > 0 {
			p.Create = append(p.Create, w.beside()...)
		} else {
			p.Update = w.instead()
		}
		p.Delete = append(p.Delete, w.unfit()...)
	}
	return p
}

// unfit returns the old Pods that the update deletes because their Node should have no Pod: unavailable Pods at once,
// and available Pods while enough Pods are available. If such a Node also has a new Pod, the new Pod is deleted
// first. Without MaxSurge, unfit returns only Pods of Nodes outside the update, after the end of the update.
func (w *walker) unfit() (out []string) {
	candidates := w.part()
	if w.LeaveUnfit {
		candidates = w.downward()
		for _, name := range w.names {
			if node := w.nodes[name]; node.Run && !node.Excluded && len(w.on(name, runs, isOld)) > 0 {
				return nil
			}
		}
	} else if w.MaxSurge == 0 {
		return nil
	}
	room := 0
	for _, name := range w.names {
		if w.nodes[name].Continue && len(w.on(name, serves)) > 0 {
			room++
		}
		if w.nodes[name].Run && !slices.Contains(w.waiting(), name) {
			room--
		}
	}
	for _, name := range candidates {
		node, old, newest := w.nodes[name], w.on(name, runs, isOld), w.on(name, runs, isNew)
		if node.Run || !node.Continue || node.Excluded || len(old) != 1 || len(newest) > 1 || w.pods[old[0]].PreDeleting {
			continue
		}
		switch p := w.pods[old[0]]; {
		case len(newest) == 1:
			if beside := w.pods[newest[0]]; w.MaxSurge > 0 && !beside.Scheduled && !serves(beside) && !beside.PreDeleting && p.Ready {
				out = append(out, beside.Name)
			}
		case !serves(p):
			out = append(out, p.Name)
		case room > 0:
			room--
			out = append(out, p.Name)
		}
	}
	return out
}

// isFree reports whether a Pod is created on a Node that should have a Pod: if the Node has no Pod at all or, with
// MaxSurge, if the Node has neither a running Pod nor an ended Pod that must be kept.
func (w *walker) isFree(node string) bool {
	resting := func(p pernode.Pod) bool { return hasEnded(p) && p.Resting }
	if !w.nodes[node].Run || w.MaxSurge == 0 {
		return w.nodes[node].Run && len(w.on(node)) == 0
	}
	return len(w.on(node, runs)) == 0 && len(w.on(node, resting)) == 0
}

// surplus returns the Pods that a Node should not have any more.
func (w *walker) surplus(node string) []int {
	if !w.nodes[node].Continue {
		return w.on(node, isThere)
	}
	out := w.on(node, func(p pernode.Pod) bool {
		return hasEnded(p) && !p.Resting || isThere(p) && p.PreDeleting && (!hasEnded(p) || !p.Resting)
	})
	first := func(tests ...func(pernode.Pod) bool) []int {
		for _, list := range [][]int{w.on(node, append(tests, runs, staying)...), w.on(node, append(tests, runs)...)} {
			if len(list) > 0 {
				return list[:1]
			}
		}
		return nil
	}
	keep := first()
	if w.MaxSurge > 0 {
		newest, old := first(isNew), first(isOld)
		keep = slices.Concat(newest, old)
		if len(newest) > 0 && len(old) > 0 && (serves(w.pods[newest[0]]) || !w.pods[old[0]].Ready) {
			keep = newest
		}
	}
	for _, i := range w.on(node, runs, staying) {
		if !slices.Contains(keep, i) {
			out = append(out, i)
		}
	}
	return out
}

// waiting returns the Nodes without a Pod that get none yet, so that the number of Nodes without a Pod at the new
// revision is at least the partition.
func (w *walker) waiting() []string {
	if !w.Progressive || w.Partition == 0 || w.OnDelete {
		return nil
	}
	wanted, have := 0, 0
	var free []string
	for _, name := range w.names {
		if !w.nodes[name].Run {
			continue
		}
		wanted++
		if w.isFree(name) {
			free = append(free, name)
		} else if len(w.on(name, runs, isNew)) > 0 || w.MaxSurge == 0 && len(w.on(name, isNew)) > 0 { // an updated Pod, now or soon
			have++
		}
	}
	return free[min(len(free), max(wanted-have-w.Partition, 0)):]
}

// part returns the Nodes that take part in the update.
func (w *walker) part() []string {
	all := slices.DeleteFunc(w.downward(), func(name string) bool {
		return !w.nodes[name].Run && (w.LeaveUnfit || len(w.on(name)) == 0)
	})
	var groups [3][]string
	waiting := w.waiting()
	for _, name := range all {
		switch {
		case slices.Contains(waiting, name): // the partition keeps the Node without a Pod
		case len(w.on(name, runs, isNew)) > 0 || w.ambiguous(name):
			groups[0] = append(groups[0], name)
		case len(w.on(name, runs, isOld, staying)) == 0 || !w.nodes[name].Continue:
			groups[1] = append(groups[1], name)
		case !w.nodes[name].Excluded:
			groups[2] = append(groups[2], name)
		}
	}
	line := slices.Concat(groups[0], groups[1], groups[2])
	return line[:min(max(len(all)-w.Partition, 0), len(line))]
}

// lone returns the only running Pod of a Node. ok is false unless the Pod is at an old revision and its deletion has
// not begun.
func (w *walker) lone(node string) (pod int, ok bool) {
	running := w.on(node, runs)
	if len(running) != 1 || !w.nodes[node].Continue || w.pods[running[0]].Updated || w.pods[running[0]].PreDeleting {
		return 0, false
	}
	return running[0], true
}

// instead returns the Pods to update by replacement (MaxSurge is 0): first all unavailable Pods, then available Pods
// while enough Nodes have an available Pod.
func (w *walker) instead() []string {
	lacking := 0
	var broken, serving []string
	rest := map[string]time.Duration{}
	for _, name := range w.part() {
		i, ok := w.lone(name)
		if ok {
			rest[w.pods[i].Name] = w.pods[i].Rest
		}
		switch running := w.on(name, runs); {
		case ok && serves(w.pods[i]):
			serving = append(serving, w.pods[i].Name)
			continue
		case ok:
			broken = append(broken, w.pods[i].Name)
		case len(running) == 1 && w.pods[running[0]].Updated && serves(w.pods[running[0]]):
			continue
		case !w.nodes[name].Continue && len(w.on(name, runs, serves)) > 0: // the Pod is deleted regardless of the update
			continue
		}
		lacking++
	}
	for _, list := range [][]string{broken, serving} {
		slices.SortStableFunc(list, func(a, b string) int { return int(rest[a] - rest[b]) })
	}
	return slices.Concat(broken, serving[:min(len(serving), max(w.MaxUnavailable-lacking, 0))])
}

// beside returns the Nodes on which a second Pod is created (MaxSurge is set).
func (w *walker) beside() []string {
	surging := 0
	var broken, serving []string
	resting := func(p pernode.Pod) bool { return hasEnded(p) && p.Resting }
	for _, name := range w.part() {
		old := w.on(name, runs, isOld)
		switch running := w.on(name, runs); {
		case len(running) > 1, len(old) > 0 && len(w.on(name, resting)) > 0:
			surging++
		case len(old) == 0 || !w.nodes[name].Run:
		case serves(w.pods[old[0]]):
			serving = append(serving, name)
		default:
			broken = append(broken, name)
		}
	}
	return slices.Concat(broken, serving[:min(len(serving), max(w.MaxSurge-surging, 0))])
}

// stepNames returns the names of a step, in the form of plan.
func stepNames(step pernode.Step, pods []pernode.Pod) plan {
	p := plan{Create: step.Create}
	for _, i := range step.Delete {
		p.Delete = append(p.Delete, pods[i].Name)
	}
	for _, i := range step.Update {
		p.Update = append(p.Update, pods[i].Name)
	}
	return p
}

// verdict checks a step for forbidden actions, independently of the reference implementation.
func verdict(s pernode.Spec, nodes []pernode.Node, pods []pernode.Pod, step pernode.Step) error {
	w := newWalker(s, nodes, pods)
	for _, rule := range []func(pernode.Step) error{w.namedOnce, w.createdForAReason, w.deletedForAReason, w.updatedForAReason, w.withinBudget} {
		if err := rule(step); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) namedOnce(step pernode.Step) error {
	named := map[int]bool{}
	for _, i := range slices.Concat(step.Delete, step.Update) {
		if named[i] {
			return fmt.Errorf("Pod %s is named twice", w.pods[i].Name)
		}
		if named[i] = true; !isThere(w.pods[i]) {
			return fmt.Errorf("Pod %s is terminating, nothing can be done about it", w.pods[i].Name)
		}
	}
	return nil
}

func (w *walker) createdForAReason(step pernode.Step) error {
	created := map[string]bool{}
	for _, name := range step.Create {
		running := w.on(name, runs)
		switch {
		case created[name]:
			return fmt.Errorf("two Pods are created for Node %s", name)
		case !w.nodes[name].Run:
			return fmt.Errorf("a Pod is created for Node %s, which is to have none", name)
		case len(running) > 1, len(running) == 1 && w.MaxSurge == 0:
			return fmt.Errorf("a Pod is created for Node %s, which has %d", name, len(running))
		case len(running) == 1 && (w.Paused || w.OnDelete || w.pods[running[0]].Updated):
			return fmt.Errorf("a Pod is created for Node %s beside %s for no reason", name, w.pods[running[0]].Name)
		case w.MaxSurge == 0 && len(w.on(name)) > 0:
			return fmt.Errorf("a Pod is created for Node %s, which %s holds", name, w.pods[w.on(name)[0]].Name)
		}
		created[name] = true
	}
	return nil
}

// deletedForAReason: a Pod in Step.Delete is unwanted, has ended, is being deleted already, or is a surplus Pod of
// its Node. A Node with an available Pod keeps an available Pod.
func (w *walker) deletedForAReason(step pernode.Step) error {
	gone, unfit := map[string]int{}, w.unfit()
	if w.Paused || w.OnDelete {
		unfit = nil
	}
	for _, i := range step.Delete {
		p := w.pods[i]
		node, known := w.nodes[p.Node]
		switch {
		case p.Node == "", !known && p.Scheduled:
			return fmt.Errorf("Pod %s is deleted, of whose Node nothing is known", p.Name)
		case !known, !node.Continue, hasEnded(p), p.PreDeleting, slices.Contains(unfit, p.Name):
			continue
		}
		gone[p.Node]++
	}
	for name, n := range gone {
		running := w.on(name, runs)
		if n >= len(running) {
			return fmt.Errorf("all Pods of Node %s are deleted", name)
		}
		stay := slices.DeleteFunc(slices.Clone(running), func(i int) bool { return slices.Contains(step.Delete, i) })
		if w.MaxSurge > 0 && len(w.on(name, runs, servesOld)) > 0 && !slices.ContainsFunc(stay, func(i int) bool { return serves(w.pods[i]) }) &&
			!w.ambiguous(name) {
			return fmt.Errorf("nothing is left on Node %s that serves", name)
		}
	}
	return nil
}

func servesOld(p pernode.Pod) bool { return serves(p) && p.Ready && !p.Updated }

func (w *walker) updatedForAReason(step pernode.Step) error {
	if (w.Paused || w.OnDelete || w.MaxSurge > 0) && len(step.Update) > 0 {
		return fmt.Errorf("%d Pods are updated, none is to be", len(step.Update))
	}
	for _, i := range step.Update {
		p := w.pods[i]
		switch node := w.nodes[p.Node]; {
		case p.Updated || !runs(p) || p.PreDeleting:
			return fmt.Errorf("Pod %s is not to be updated", p.Name)
		case node.Excluded || !node.Continue || !node.Run && w.LeaveUnfit:
			return fmt.Errorf("Pod %s is updated on Node %s, which does not take part", p.Name, p.Node)
		case len(w.on(p.Node, runs)) != 1:
			return fmt.Errorf("Pod %s is updated, and is not alone", p.Name)
		}
	}
	all, moved := 0, len(step.Update)
	for _, name := range w.names {
		if !w.nodes[name].Run && (w.LeaveUnfit || len(w.on(name)) == 0) {
			continue
		}
		all++
		if _, ok := w.lone(name); !ok && !slices.Contains(w.waiting(), name) {
			moved++
		}
	}
	if len(step.Update) > 0 && moved > all-w.Partition {
		return fmt.Errorf("%d of %d Nodes are at the new revision or on their way, the partition is %d", moved, all, w.Partition)
	}
	return nil
}

// withinBudget: no available Pod is updated if the number of Nodes in the update without an available Pod has reached
// MaxUnavailable.
func (w *walker) withinBudget(step pernode.Step) error {
	taken, lacking := 0, 0
	part := w.part()
	for _, name := range part {
		if !w.nodes[name].Continue && len(w.on(name, runs, serves)) > 0 {
			continue
		}
		if running := w.on(name, runs); len(running) != 1 || !serves(w.pods[running[0]]) {
			lacking++
		}
	}
	for _, i := range step.Update {
		if !slices.Contains(part, w.pods[i].Node) {
			return fmt.Errorf("Pod %s is updated, Node %s keeps its revision", w.pods[i].Name, w.pods[i].Node)
		}
		if serves(w.pods[i]) {
			taken++
		}
	}
	if taken > 0 && taken+lacking > w.MaxUnavailable {
		return fmt.Errorf("%d Pods that serve are updated, %d Nodes lack one and %d may", taken, lacking, w.MaxUnavailable)
	}
	two := 0
	for _, name := range part {
		switch running := w.on(name, runs); {
		case len(running) > 1:
			two++
		case len(running) == 1 && slices.Contains(step.Create, name):
			if serves(w.pods[running[0]]) {
				taken++
			}
		}
	}
	if w.MaxSurge > 0 && taken > 0 && taken+two > w.MaxSurge {
		return fmt.Errorf("%d Nodes get a second Pod beside %d, %d may", taken, two, w.MaxSurge)
	}
	return nil
}

// ruled renders the fields of a spec that are set.
func ruled(s pernode.Spec) string {
	text := fmt.Sprintf("partition %d, maxUnavailable %d, maxSurge %d", s.Partition, s.MaxUnavailable, s.MaxSurge)
	for name, set := range map[string]bool{"progressive": s.Progressive, "paused": s.Paused, "OnDelete": s.OnDelete, "leaves unfit": s.LeaveUnfit} {
		if set {
			text += ", " + name
		}
	}
	return text
}

// listed renders Nodes and Pods in the form of the tables.
func listed(nodes []pernode.Node, pods []pernode.Pod) string {
	var lines [2][]string
	words := func(name string, list ...any) string {
		for i := 0; i < len(list); i += 2 {
			if set, _ := list[i].(bool); set {
				name += fmt.Sprint(" ", list[i+1])
			}
		}
		return name
	}
	for _, n := range nodes {
		lines[0] = append(lines[0], words(n.Name, !n.Run && n.Continue, "stay", !n.Run && !n.Continue, "leave", n.Excluded, "excluded"))
	}
	for _, p := range pods {
		lines[1] = append(lines[1], words(p.Name, p.Updated, "new", !p.Updated, "old", p.Health == rollout.Unavailable && !p.Ready, "down",
			p.Health == rollout.Unavailable && p.Ready, "warm", hasEnded(p), "ended", p.Resting, "resting", !isThere(p), "terminating", leaving(p), "predeleting",
			p.Rest > 0, "hopeless", !p.Scheduled, "unscheduled"))
	}
	return strings.Join(lines[0], ", ") + "\n" + strings.Join(lines[1], ", ")
}
