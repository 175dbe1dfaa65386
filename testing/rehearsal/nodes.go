package rehearsal

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// nodes simulates the scheduler and the kubelets of a rehearsal. A Pod is handled when the Pod has changed, and when
// a wait ends.
type nodes struct {
	*faultapi.Nodes

	server *faultapi.Server
	config *Config

	seen   int // number of the server's events of Pods that were read
	fresh  []podRef
	marked map[types.UID]bool
	waits  map[wait]time.Time
	last   int // number of Pods scheduled
}

// podRef identifies a Pod.
type podRef struct {
	key types.NamespacedName
	uid types.UID
}

// wait is a container that will become ready, or, if container is empty, a Pod that will end.
type wait struct {
	podRef

	container string
	started   time.Time
}

func newNodes(server *faultapi.Server, config *Config) *nodes {
	return &nodes{Nodes: server.Nodes(), server: server, config: config, marked: map[types.UID]bool{}, waits: map[wait]time.Time{}}
}

// begin makes the kubelets know the running Pods, and marks the Pods that still have work to do.
func (n *nodes) begin() {
	n.Adopt()
	n.seen = len(n.server.Events(&corev1.Pod{}))
	for _, pod := range faultapi.All[*corev1.Pod](n.server) {
		behind := pod.Status.ObservedGeneration != 0 && pod.Status.ObservedGeneration < pod.Generation
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || behind || !podstate.IsReady(pod) {
			n.mark(pod)
		}
	}
}

func (n *nodes) mark(pod client.Object) {
	if uid := pod.GetUID(); !n.marked[uid] {
		n.marked[uid] = true
		n.fresh = append(n.fresh, podRef{client.ObjectKeyFromObject(pod), uid})
	}
}

// step lets scheduler and kubelets handle each changed Pod once, and reports whether anything has changed.
func (n *nodes) step() bool {
	before := n.server.Version()
	events := n.server.Events(&corev1.Pod{})
	for _, e := range events[n.seen:] {
		n.mark(e.Object)
	}
	n.seen = len(events)
	fresh := n.fresh
	n.fresh, n.marked = nil, map[types.UID]bool{}
	for _, ref := range fresh {
		n.sync(ref)
	}
	n.retry()
	return n.server.Version() != before
}

// sync lets scheduler and kubelet do their work for a Pod.
func (n *nodes) sync(ref podRef) {
	pod := n.Pod(ref.key, ref.uid)
	if pod == nil {
		n.Observe(ref.key, ref.uid)
		return
	}
	if pod.Spec.NodeName == "" {
		if !n.schedule(pod) {
			n.mark(pod) // a missing claim or Node may be created later
		}
		return
	}
	if n.isDown(pod.Spec.NodeName) {
		return
	}
	n.Observe(ref.key, ref.uid)
	n.Run(ref.uid)
	n.Report(ref.uid)
	now := n.config.Clock.Now()
	if pod.DeletionTimestamp != nil {
		n.until(wait{podRef: ref}, now.Add(n.config.EndsAfter))
		return
	}
	for _, c := range n.Unready(pod) {
		if after, ok := n.config.ReadyAfter(pod, c); ok {
			n.until(wait{ref, c.Name, c.Started.Time}, c.Started.Add(after))
		}
	}
}

// isDown reports whether the kubelet of a Node has not reported for a while: its Pods stay as they are, also Pods that are
// being deleted. The kubelet of a Node that reports itself as not ready still works.
func (n *nodes) isDown(name string) bool {
	node, _ := n.server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}).(*corev1.Node)
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// retry lets the Pods that could not be scheduled wait for the next step.
func (n *nodes) retry() {
	n.fresh = slices.DeleteFunc(n.fresh, func(ref podRef) bool { return n.Pod(ref.key, ref.uid) == nil })
}

func (n *nodes) until(w wait, at time.Time) {
	if _, known := n.waits[w]; !known {
		n.waits[w] = at
	}
}

// schedule binds a Pod to a Node on which the Pod may run. If the server has no Nodes, every Pod is bound.
func (n *nodes) schedule(pod *corev1.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	name := "any-node"
	if all := faultapi.All[*corev1.Node](n.server); len(all) > 0 {
		if name = n.choose(pod, all); name == "" {
			return false
		}
	}
	n.last++
	return n.Schedule(pod, name)
}

// choose returns the name of a Node that fits, or "" if no Node fits. Successive Pods go to different Nodes.
func (n *nodes) choose(pod *corev1.Pod, all []*corev1.Node) string {
	requirements, err := nodefit.New(&pod.Spec)
	if err != nil {
		return ""
	}
	for i := range all {
		if node := all[(n.last+i)%len(all)]; requirements.Fits(node).Run && !node.Spec.Unschedulable {
			return node.Name
		}
	}
	if pinned, err := nodefit.NodeOf(pod); err == nil {
		return pinned // a Pod of a DaemonSet may run on a cordoned Node
	}
	for i := range all {
		if node := all[(n.last+i)%len(all)]; n.config.Unknown != nil && n.config.Unknown(node) {
			return node.Name
		}
	}
	return ""
}

// wake ends the waits that are over, and returns the end of the next wait; zero if there is no wait.
func (n *nodes) wake() (next time.Time) {
	now := n.config.Clock.Now()
	var over []wait
	for w, at := range n.waits {
		if !at.After(now) {
			over = append(over, w)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	slices.SortFunc(over, func(a, b wait) int { return compareWaits(&a, &b) })
	for _, w := range over {
		delete(n.waits, w)
		n.end(w)
	}
	return next
}

// end ends a wait, unless the Pod or the container has been replaced meanwhile.
func (n *nodes) end(w wait) {
	pod := n.Pod(w.key, w.uid)
	if pod == nil {
		return
	}
	if w.container == "" {
		n.Terminate(w.uid)
		n.mark(pod)
		return
	}
	for _, c := range n.Unready(pod) {
		if c.Name == w.container && c.Started.Time.Equal(w.started) && n.SetReady(w.uid, w.container, true) {
			n.Report(w.uid)
		}
	}
}
