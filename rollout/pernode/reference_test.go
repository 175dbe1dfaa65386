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

// walker is the reference for a single Pod per Node, Node after Node and rule after rule, without a thought of time
// or memory.
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

// on returns the Pods of a Node that pass all tests, the oldest first.
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

// ambiguous Nodes have several Pods of a revision.
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

// plan is a step in names: the Nodes for new Pods and the Pods to update in order, the Pods to delete sorted.
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

// unfit are the old Pods ended by the update because their Node is to have no Pod: broken Pods at once, serving Pods
// while enough Pods serve. A new Pod beside them without a place on the Node goes first. Without surge only Nodes left
// out of the update need unfit, after the update's end.
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

// isFree: a Node gets a Pod if the Node has no Pod at all. With surge, no Pod may run there and none may rest.
func (w *walker) isFree(node string) bool {
	resting := func(p pernode.Pod) bool { return hasEnded(p) && p.Resting }
	if !w.nodes[node].Run || w.MaxSurge == 0 {
		return w.nodes[node].Run && len(w.on(node)) == 0
	}
	return len(w.on(node, runs)) == 0 && len(w.on(node, resting)) == 0
}

// surplus are the Pods that a Node is not to have any more.
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

// waiting are the Nodes without a Pod that must wait, so that as many Nodes as the partition says have no Pod of the
// new revision.
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
		} else if len(w.on(name, runs, isNew)) > 0 || w.MaxSurge == 0 && len(w.on(name, isNew)) > 0 { // the Node has an updated Pod, or will have an updated Pod again
			have++
		}
	}
	return free[min(len(free), max(wanted-have-w.Partition, 0)):]
}

// part are the Nodes that take part in the update.
func (w *walker) part() []string {
	all := slices.DeleteFunc(w.downward(), func(name string) bool {
		return !w.nodes[name].Run && (w.LeaveUnfit || len(w.on(name)) == 0)
	})
	var groups [3][]string
	waiting := w.waiting()
	for _, name := range all {
		switch {
		case slices.Contains(waiting, name): // lacks a Pod on purpose
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

// lone returns the only running Pod of a Node, if old and without a begun action.
func (w *walker) lone(node string) (pod int, ok bool) {
	running := w.on(node, runs)
	if len(running) != 1 || !w.nodes[node].Continue || w.pods[running[0]].Updated || w.pods[running[0]].PreDeleting {
		return 0, false
	}
	return running[0], true
}

// instead are the Pods to replace: first all Pods that do not serve, then serving Pods while enough Nodes have a
// serving Pod.
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
		case !w.nodes[name].Continue && len(w.on(name, runs, serves)) > 0: // the Pod goes regardless of the update
			continue
		}
		lacking++
	}
	for _, list := range [][]string{broken, serving} {
		slices.SortStableFunc(list, func(a, b string) int { return int(rest[a] - rest[b]) })
	}
	return slices.Concat(broken, serving[:min(len(serving), max(w.MaxUnavailable-lacking, 0))])
}

// beside are the Nodes to create a second Pod for.
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

// verdict checks a step for forbidden actions, regardless of the reference.
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

// deletedForAReason: a deleted Pod is unwanted, has ended, is being deleted, or is surplus, and a Node with a serving
// Pod keeps a serving Pod.
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

// withinBudget: an update takes away no serving Pod if as many Nodes of the update as allowed lack a serving Pod.
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

// ruled renders a spec with only its set fields.
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
