package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, no Pod is created for a Node that is unfit or has a Pod, and no Pod is deleted
// without a valid reason. No Node loses its available Pod if maxUnavailable or the partition forbids this. In the end
// the cluster matches the spec.
func TestFaults(t *testing.T) {
	chaos.Run(t, chaos.Plan{
		Scheme: newScheme(t), Kinds: []client.Object{&Agent{}, &corev1.Node{}},
		Quiet: 6 * time.Minute, Steps: 200, // longer than the back-off of a refused update
		New: func(w *chaos.World) chaos.Subject {
			s := &season{World: w, ended: map[endings]ending{}}
			return chaos.Subject{
				Setup: func(ctx context.Context, mgr manager.Manager) (err error) {
					s.operator, err = setup(ctx, mgr)
					return err
				},
				Begin: s.begin, Users: s.users, Denies: s.denies, Settle: s.settle,
				Looks: s.look, Wrote: s.judge, Converged: s.converged,
			}
		},
	})
}

// season is the state of a fault schedule, that is a test run with random faults.
type season struct {
	*chaos.World
	operator *reconciler // the reconciler of the last process

	// policy says which requests the API server refuses: none, patches of a Pod's spec, every write to a single Pod, new
	// Pods, deletions, or patches of a status.
	policy int
	denied string
	// ended contains, for each Node, when the operator may delete the next ended Pod.
	ended map[endings]ending
}

// denies returns the API server's error for requests that the present policy refuses.
func (s *season) denies(call faultapi.Call, _ client.Object) error {
	refused := false
	switch patches := call.Verb == "patch" && call.Subresource == ""; s.policy {
	case 1:
		refused = patches
	case 2:
		refused = call.Name == s.denied && (call.Verb == "delete" || patches)
	case 3:
		refused = call.Verb == "create"
	case 4:
		refused = call.Verb == "delete"
	case 5:
		refused = call.Verb == "patch" && call.Subresource == "status"
	}
	if !refused || call.Resource.Resource != "pods" {
		return nil
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
}

func (s *season) must(err error) {
	if err != nil {
		s.Failf("story", "%v", err)
	}
}

func (s *season) begin() {
	for range 3 + s.Rand().IntN(3) {
		s.join()
	}
	s.create()
}

func (s *season) create() {
	agent := &Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "logs"}}
	agent.Spec.MaxUnavailable = s.Rand().IntN(3)
	agent.Spec.Template.Labels = map[string]string{"agent": "logs"}
	agent.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	s.must(s.User.Create(context.Background(), agent))
}

func (s *season) agent() *Agent {
	agent := &Agent{}
	s.must(s.User.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "logs"}, agent))
	return agent
}

// users makes a random change as a user.
func (s *season) users() {
	switch n := s.Rand().IntN(40); {
	case n < 5:
		s.policy, s.denied = s.Rand().IntN(6), ""
		if pod := s.AnyPod(); pod != nil {
			s.denied = pod.Name
		}
		s.Logf("admission: policy %d, Pod %s", s.policy, s.denied)
	case n < 17:
		s.changeNodes()
	case n < 20:
		s.end(s.AnyPod())
	case n < 21:
		s.endAgain()
	case n < 22:
		s.Logf("user: another Agent of that name")
		s.must(s.User.Delete(context.Background(), s.agent()))
		s.create()
	case n < 23: // many releases, more than the history limit
		for i := range historyLimit + 3 {
			agent := s.agent()
			agent.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("app:v%d", i)
			s.update(agent)
			s.CatchUp()
			s.Sleep(time.Minute)
		}
	default:
		s.edit()
	}
}

// edit changes the spec. Another image is possible in place; another command or node selector is not.
func (s *season) edit() {
	agent := s.agent()
	pod := &agent.Spec.Template.Spec
	switch n := s.Rand().IntN(20); {
	case n < 9:
		pod.Containers[0].Image = fmt.Sprintf("app:v%d", s.Rand().IntN(4))
	case n < 12:
		pod.Containers[0].Command = []string{fmt.Sprintf("serve-%d", s.Rand().IntN(2))}
	case n < 13:
		if pod.NodeSelector = nil; s.Chance(50) {
			pod.NodeSelector = map[string]string{"pool": "web"}
		}
	case n < 16:
		agent.Spec.Partition = s.Rand().IntN(4)
	case n < 17:
		agent.Spec.Partition = -1 // stored without admission
	default:
		agent.Spec.MaxUnavailable = s.Rand().IntN(4)
	}
	s.update(agent)
}

func (s *season) update(agent *Agent) {
	s.Logf("user: %s, partition %d, at most %d unavailable", appOf(agent.Spec.Template.Spec), agent.Spec.Partition, agent.Spec.MaxUnavailable)
	s.must(s.User.Update(context.Background(), agent))
}

// These are keys of taints: the first keeps new Pods away, and the second evicts all Pods.
const (
	dedicated = "example.test/dedicated"
	broken    = "example.test/broken"
)

// join adds a Node with a free name.
func (s *season) join() {
	var free []string
	for i := range 8 {
		name := fmt.Sprintf("node-%d", i)
		if s.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}) == nil {
			free = append(free, name)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: free[s.Rand().IntN(len(free))], Labels: map[string]string{"pool": "web"}}}
	s.Logf("node: %s joins", node.Name)
	s.must(s.User.Create(context.Background(), node))
}

// changeNodes makes a random change to a Node.
func (s *season) changeNodes() {
	nodes := faultapi.All[*corev1.Node](s.Server)
	node := nodes[s.Rand().IntN(len(nodes))].DeepCopy()
	toggle := func(key string, effect corev1.TaintEffect) {
		taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == key })
		if len(taints) == len(node.Spec.Taints) {
			taints = append(taints, corev1.Taint{Key: key, Effect: effect})
		}
		node.Spec.Taints = taints
	}
	switch n := s.Rand().IntN(12); {
	case n < 2:
		if len(nodes) < 6 {
			s.join()
		}
		return
	case n < 5:
		if len(nodes) > 2 {
			s.Logf("node: %s goes", node.Name)
			s.must(s.User.Delete(context.Background(), node))
		}
		if n < 4 {
			return
		}
		s.join()
		return
	case n < 7:
		toggle(dedicated, corev1.TaintEffectNoSchedule)
	case n < 9:
		toggle(broken, corev1.TaintEffectNoExecute)
	case n < 10:
		toggle(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute) // the Pods tolerate this taint
	case n < 11:
		node.Spec.Unschedulable = !node.Spec.Unschedulable // the Pods also tolerate a cordon
	default:
		node.Labels["pool"] = map[string]string{"web": "db", "db": "web"}[node.Labels["pool"]]
	}
	s.Logf("node: %s has labels %v, taints %v, cordoned %t", node.Name, node.Labels, node.Spec.Taints, node.Spec.Unschedulable)
	s.must(s.User.Update(context.Background(), node))
}

// end makes a Pod end, or deletes the Pod as a user.
func (s *season) end(pod *corev1.Pod) {
	switch {
	case pod == nil:
	case s.Chance(40):
		s.Logf("user: Pod %s is deleted", pod.Name)
		s.must(s.User.Delete(context.Background(), pod))
	default:
		s.evict(pod)
	}
}

func (s *season) evict(pod *corev1.Pod) {
	s.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	s.Logf("node: evict %s, changed %v, reported %v", pod.Name, s.Nodes.Evict(pod.UID), s.Nodes.Report(pod.UID))
}

// endAgain makes the Pods of a Node end one after the other.
func (s *season) endAgain() {
	first := s.AnyPod()
	if first == nil {
		return
	}
	for range 10 {
		for _, pod := range faultapi.All[*corev1.Pod](s.Server) {
			if podstate.IsActive(pod) && pod.Spec.NodeName != "" && pod.Spec.NodeName == first.Spec.NodeName {
				s.evict(pod)
			}
		}
		s.Nodes.Settle()
		s.CatchUp()
		s.Sleep(time.Second)
	}
}

// settle corrects the spec and ends the policy, so that the operator can reach the wanted state. Before the policy
// ends, half an hour passes, in which the operator must do all work that the policy does not prevent. The last event
// is a new Node, after all other work is done.
func (s *season) settle() {
	s.CatchUp()
	s.admitPending()
	if agent := s.agent(); agent.Spec.Partition < 0 {
		agent.Spec.Partition = s.Rand().IntN(3)
		s.update(agent)
	}
	if s.policy != 0 || s.Chance(30) {
		for range 60 {
			s.Sleep(30 * time.Second)
			s.Nodes.Settle()
			s.Server.CollectGarbage()
			s.CatchUp()
		}
		s.possible()
		s.policy = 0
		s.join()
	}
}

// admitPending removes taints from Nodes to which waiting Pods are bound by their affinity, because such a Pod would
// wait for ever.
func (s *season) admitPending() {
	for _, pod := range faultapi.All[*corev1.Pod](s.Server) {
		node, ok := s.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: nodeOf(pod)}).(*corev1.Node)
		if pod.Spec.NodeName == "" && ok && (len(node.Spec.Taints) > 0 || node.Labels["pool"] != "web") {
			node = node.DeepCopy()
			node.Spec.Taints, node.Labels["pool"] = nil, "web"
			s.Logf("node: %s takes Pod %s", node.Name, pod.Name)
			s.must(s.User.Update(context.Background(), node))
		}
	}
}

// nodeOf returns the Node of a Pod, or the Node for which a Pod was created.
func nodeOf(pod *corev1.Pod) string {
	node, _ := nodefit.NodeOf(pod)
	return node
}

// appOf returns the fields of a Pod's spec that the schedules change in templates.
func appOf(spec corev1.PodSpec) string {
	return fmt.Sprint(spec.Containers[0].Image, spec.Containers[0].Command, spec.NodeSelector)
}

// place is a Node with the Agent's Pods. run is true if the Node should have a Pod, and stay if a running Pod may
// stay.
type place struct {
	name      string
	run, stay bool
	pods      []*corev1.Pod
}

// sight is the input of a reconciliation: the cache at the beginning, or at the last check of an earlier write.
type sight struct {
	agent *Agent
	now   time.Time
	pods  map[types.UID]*corev1.Pod
	// places are in update order.
	places []*place
	wrote  bool
	// taken are the Nodes whose available Pod this reconciliation has deleted or taken out of service.
	taken map[string]bool
}

func (s *season) look(t *chaos.Task, call *faultapi.Call) {
	if t.Controller != "agents" {
		return
	}
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{taken: map[string]bool{}}
		t.View = v
	}
	if v.wrote = v.wrote || call != nil && !call.IsRead(); v.wrote {
		return
	}
	v.now = time.Now()
	agent := &Agent{}
	if t.Process.Cache.Get(context.Background(), t.Object, agent) != nil {
		v.agent = nil
		return
	}
	if v.agent != nil && v.agent.Spec.Partition >= 0 && agent.Spec.Partition < 0 {
		return // the reconciliation has read the Agent before
	}
	v.agent = agent
	var pods corev1.PodList
	var nodes corev1.NodeList
	s.must(errors.Join(t.Process.Cache.List(context.Background(), &pods), t.Process.Cache.List(context.Background(), &nodes)))
	v.arrange(pointers(pods.Items), pointers(nodes.Items))
}

func pointers[T any](items []T) (out []*T) {
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

// arrange assigns the Pods to the Nodes. A terminating Pod that has ended is left out, because its containers no
// longer use the Node.
func (v *sight) arrange(pods []*corev1.Pod, nodes []*corev1.Node) {
	v.places, v.pods = nil, map[types.UID]*corev1.Pod{}
	byName := map[string]*place{}
	for _, node := range nodes {
		p := &place{name: node.Name}
		p.stay = v.agent.Spec.Template.Spec.NodeSelector == nil || node.Labels["pool"] == "web"
		p.run = p.stay
		for _, taint := range node.Spec.Taints {
			p.run, p.stay = p.run && taint.Key != dedicated && taint.Key != broken, p.stay && taint.Key != broken
		}
		v.places, byName[p.name] = append(v.places, p), p
	}
	slices.SortFunc(v.places, func(a, b *place) int { return strings.Compare(b.name, a.name) })
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, v.agent) {
			continue
		}
		v.pods[pod.UID] = pod
		if p := byName[nodeOf(pod)]; p != nil && (pod.DeletionTimestamp == nil || !podstate.HasEnded(pod)) {
			p.pods = append(p.pods, pod)
		}
	}
}

func (v *sight) place(name string) *place {
	if i := slices.IndexFunc(v.places, func(p *place) bool { return p.name == name }); i >= 0 {
		return v.places[i]
	}
	return nil
}

func (v *sight) isOutdated(pod *corev1.Pod) bool {
	return appOf(pod.Spec) != appOf(v.agent.Spec.Template.Spec)
}

// serves reports whether a Node has an available Pod that the reconciliation has not changed.
func (v *sight) serves(p *place) bool { return !v.taken[p.name] && slices.ContainsFunc(p.pods, serves) }

func serves(pod *corev1.Pod) bool {
	return podstate.IsActive(pod) && podstate.IsReady(pod) && podstate.GateOpen(pod, gate)
}

// updated returns the Nodes that may have Pods at the newest revision: first Nodes with such a Pod, then Nodes whose
// next Pod will be at the newest revision, then other Nodes in the update order. As many Nodes as the partition says
// are left out at the end.
func (v *sight) updated() []*place {
	var first, next, last []*place
	for _, p := range v.places {
		running := slices.DeleteFunc(slices.Clone(p.pods), func(pod *corev1.Pod) bool { return !podstate.IsActive(pod) })
		switch {
		case !p.run && len(p.pods) == 0:
		case slices.ContainsFunc(running, func(pod *corev1.Pod) bool { return !v.isOutdated(pod) }):
			first = append(first, p)
		case len(running) == 0 || !p.stay:
			next = append(next, p)
		default:
			last = append(last, p)
		}
	}
	all := slices.Concat(first, next, last)
	return all[:max(len(all)-v.agent.Spec.Partition, 0)]
}

// judge compares each write to a Pod with the objects that the reconciliation has seen.
func (s *season) judge(w *chaos.Write) {
	v, _ := w.Task.View.(*sight)
	before, _ := w.Before.(*corev1.Pod)
	after, _ := w.After.(*corev1.Pod)
	closes := before != nil && after != nil && podstate.GateOpen(before, gate) && !podstate.GateOpen(after, gate)
	switch {
	case w.Call.Resource.Resource != "pods":
	case v == nil || v.agent == nil:
		if w.Call.Verb == "delete" || w.Call.Verb == "create" || closes {
			s.Failf("loops", "%s of Pod %s by the Pods' own loop", w.Call.Verb, w.Call.Name)
		}
	case v.agent.Spec.Partition < 0:
		s.Failf("invalid", "%s of Pod %s, while the spec makes no sense", w.Call.Verb, w.Call.Name)
	case before == nil:
		s.judgeCreation(v, after)
	case w.Call.Verb == "delete" || closes || appOf(before.Spec) != appOf(after.Spec):
		s.judgeChange(v, w, before)
	}
}

// judgeCreation checks that a Pod is created only for a Node that should have a Pod, and only after the former Pod no
// longer exists.
func (s *season) judgeCreation(v *sight, pod *corev1.Pod) {
	p := v.place(nodeOf(pod))
	if p == nil || !p.run || len(p.pods) > 0 {
		s.Failf("fit", "Pod %s is created for Node %s, which is not to get one: %+v", pod.Name, nodeOf(pod), p)
	}
	if v.isOutdated(pod) || !podstate.HasGate(pod, gate) {
		s.Failf("revision", "Pod %s is created with %s and gates %v", pod.Name, appOf(pod.Spec), pod.Spec.ReadinessGates)
	}
	for _, other := range faultapi.All[*corev1.Pod](s.Server) {
		gone := other.DeletionTimestamp != nil && podstate.HasEnded(other)
		if other.UID != pod.UID && nodeOf(other) == p.name && metav1.IsControlledBy(other, v.agent) && !gone {
			s.Failf("twins", "Pod %s is created on Node %s beside %s", pod.Name, p.name, other.Name)
		}
	}
}

// judgeChange checks that a Pod is deleted or taken out of service only if its Node should have no Pod, if the Pod
// has ended, or for an update. For an update the Pod must be next, and enough Pods must be available.
func (s *season) judgeChange(v *sight, w *chaos.Write, before *corev1.Pod) {
	verb, pod := w.Call.Verb, v.pods[before.UID]
	if pod == nil || pod.DeletionTimestamp != nil {
		s.Failf("reason", "%s of Pod %s, which the pass had not seen or which terminates", verb, before.Name)
	}
	p := v.place(nodeOf(pod))
	switch {
	case verb == "delete" && p == nil && pod.Spec.NodeName == "", verb == "delete" && p != nil && !p.stay:
		return
	case verb == "delete" && p != nil && !podstate.IsActive(pod):
		s.judgeEnding(v, endings{w.Task.Process.Start, p.name, v.agent.UID, v.agent.Generation})
		return
	case p == nil:
		s.Failf("lost", "%s of Pod %s, which is on a Node that is gone", verb, pod.Name)
	case !v.isOutdated(pod):
		s.Failf("reason", "%s of Pod %s, which is as it is wanted", verb, pod.Name)
	case !slices.Contains(v.updated(), p):
		s.Failf("partition", "%s of Pod %s on Node %s, beyond the partition of %d", verb, pod.Name, p.name, v.agent.Spec.Partition)
	}
	if !serves(pod) {
		return
	}
	v.taken[p.name] = true
	without := slices.DeleteFunc(v.updated(), v.serves)
	if most := max(v.agent.Spec.MaxUnavailable, 1); len(without) > most {
		s.Failf("budget", "without Pod %s, %d of the Nodes that are updated lack an available Pod, %d may", pod.Name, len(without), most)
	}
}

// endings identifies Pods that end one after the other on the same Node, while neither the Agent's spec nor the
// operator's process changes.
type endings struct {
	process    int
	node       string
	agent      types.UID
	generation int64
}

// ending contains the earliest time of the next deletion of an ended Pod, and the pause before the previous deletion.
type ending struct {
	next time.Time
	wait time.Duration
}

// judgeEnding checks that if Pods on a Node end again and again, the pauses between replacements grow.
func (s *season) judgeEnding(v *sight, key endings) {
	const most = 15 * time.Minute
	last, again := s.ended[key]
	if again && v.now.Before(last.next) {
		s.Failf("back-off", "a Pod on Node %s is deleted, which has ended, %v before it may be", key.node, last.next.Sub(v.now))
	}
	wait := time.Second
	if again && v.now.Sub(last.next) <= most {
		wait = min(2*last.wait, most)
	}
	s.ended[key] = ending{v.now.Add(wait), wait}
}

// possible checks that the operator has done all work that the policy does not prevent: as far as maxUnavailable
// allows, each Node that takes part in the update has its wanted Pod. If the policy prevents this on a Node, the
// Agent's status must report the failure.
func (s *season) possible() {
	v := s.now()
	without, trouble := 0, false
	var bad []string
	for _, p := range v.updated() {
		switch {
		case v.serves(p) && p.stay && !v.isOutdated(p.pods[0]):
		case s.isHeldUp(v, p):
			if trouble = true; !v.serves(p) {
				without++
			}
		default:
			bad = append(bad, fmt.Sprintf("Node %s has %d Pods", p.name, len(p.pods)))
		}
	}
	if bad != nil && without < max(v.agent.Spec.MaxUnavailable, 1) {
		s.Failf("possible", "policy %d, Pod %s: %s", s.policy, s.denied, bad)
	}
	if trouble && !meta.IsStatusConditionTrue(v.agent.Status.Conditions, "Failed") {
		s.Failf("condition", "policy %d, Pod %s: %+v", s.policy, s.denied, v.agent.Status.Conditions)
	}
}

// isHeldUp reports whether the policy prevents the wanted state of a Node.
func (s *season) isHeldUp(v *sight, p *place) bool {
	if len(p.pods) == 0 {
		return s.policy == 3
	}
	pod := p.pods[0]
	switch s.policy {
	case 1: // the update had begun
		return podstate.IsActive(pod) && !podstate.GateOpen(pod, gate)
	case 2:
		return pod.Name == s.denied
	case 4:
		running, wanted := pod.Spec.Containers[0].Command, v.agent.Spec.Template.Spec.Containers[0].Command
		sameNodes := reflect.DeepEqual(pod.Spec.NodeSelector, v.agent.Spec.Template.Spec.NodeSelector)
		return !podstate.IsActive(pod) || !p.stay || !slices.Equal(running, wanted) || !sameNodes
	case 5:
		return !serves(pod)
	}
	return false
}

// now returns the present state.
func (s *season) now() *sight {
	v := &sight{agent: s.agent()}
	v.arrange(faultapi.All[*corev1.Pod](s.Server), faultapi.All[*corev1.Node](s.Server))
	return v
}

// converged checks the final state: each Node that should have a Pod has an available Pod, and other Nodes have only
// Pods that may stay. The Pods are at the revisions that the partition requires, the status and the conditions are
// right, and the process remembers nothing about deleted objects.
func (s *season) converged() {
	v := s.now()
	revisions := faultapi.All[*appsv1.ControllerRevision](s.Server)
	newest := slices.MaxFunc(revisions, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	want := Status{ObservedGeneration: v.agent.Generation, Revision: newest.Name}
	on, old := 0, 0
	for _, p := range v.places {
		if on += len(p.pods); len(p.pods) > 1 || p.run && len(p.pods) == 0 || !p.stay && len(p.pods) > 0 {
			s.Failf("converged", "Node %s has %d Pods, is to have one: %t, may have: %t", p.name, len(p.pods), p.run, p.stay)
		}
		if p.run {
			want.Nodes++
			want.Available++
			want.Updated++
		}
		for _, pod := range p.pods {
			if !serves(pod) {
				s.Failf("converged", "Pod %s on Node %s does not serve: ready %t, deleted %v", pod.Name, p.name, podstate.IsReady(pod), pod.DeletionTimestamp)
			}
			if v.isOutdated(pod) == (pod.Labels[revisionLabel] == newest.Labels[revisionLabel]) {
				s.Failf("converged", "Pod %s with %s is at revision %s", pod.Name, appOf(pod.Spec), pod.Labels[revisionLabel])
			}
			if v.isOutdated(pod) {
				if old++; p.run {
					want.Updated--
				}
				if slices.Contains(v.updated(), p) {
					s.Failf("converged", "Pod %s on Node %s was not updated: %s, partition %d", pod.Name, p.name, appOf(pod.Spec), v.agent.Spec.Partition)
				}
			}
		}
	}
	if on != len(v.pods) {
		s.Failf("converged", "%d of %d Pods are on Nodes", on, len(v.pods))
	}
	s.convergedStatus(v, want, old > 0)
	if len(revisions) > 1+old+historyLimit {
		s.Failf("history", "%d revisions, %d Pods are old", len(revisions), old)
	}
	o := s.operator
	if awaited, refused, read := o.Cache.Clients().Tracker().Len(), o.Fanout.Backoff.Len(), o.Reader.Len(); max(awaited, refused) > 1+len(v.pods) || read > 1 {
		s.Failf("memory", "%d are awaited, %d refusals are remembered, %d owners, where there are one and %d Pods", awaited, refused, read, len(v.pods))
	}
}

// convergedStatus checks that the numbers are right, no failure is reported, and the status says why Pods are
// outdated.
func (s *season) convergedStatus(v *sight, want Status, waiting bool) {
	got := v.agent.Status
	conditions := got.Conditions
	if got.Conditions = nil; !reflect.DeepEqual(got, want) {
		s.Failf("status", "%+v, want %+v", got, want)
	}
	if meta.IsStatusConditionTrue(conditions, "Failed") || meta.IsStatusConditionTrue(conditions, "Waiting") != waiting {
		s.Failf("condition", "%+v, while Pods are old: %t", conditions, waiting)
	}
}
