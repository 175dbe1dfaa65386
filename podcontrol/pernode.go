package podcontrol

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// PerNode describes the Pods of an owner by Node, for pernode.Plan.
type PerNode struct {
	// Pods are the owner's Pods, including terminating and ended Pods, Pods that the selector no longer matches, and
	// Pods without a Node.
	Pods []pernode.Pod

	// Nodeless Pods are neither bound nor pinned to a Node: CreatePerNode did not create them. No plan updates or
	// deletes these Pods.
	Nodeless []*corev1.Pod

	objects []*corev1.Pod
}

// PerNodeOptions are the options of Set.PerNode.
type PerNodeOptions struct {
	// Rest returns how long a Pod must still wait, as in Orders; nil for none.
	Rest func(*Pod) time.Duration
	// Ended returns how long an ended Pod must still be kept, so that Pods that end quickly are not recreated in a fast
	// loop; nil for none. executor.Turn.PerNode sets Ended.
	Ended func(pod *corev1.Pod, node string) time.Duration
}

// PerNode describes the Pods by their Nodes. A Pod that the selector does not match counts as terminating: the Pod
// occupies its Node, and only somebody else can delete the Pod. Pods that have ended and are also being deleted are
// left out: even if a finalizer keeps such a Pod, nothing of the Pod runs on the Node. Kubernetes does the same
// (getNodesToDaemonPods in pkg/controller/daemon/daemon_controller.go). PerNode takes O(n) time.
func (s *Set) PerNode(o PerNodeOptions) *PerNode {
	all := len(s.Active) + len(s.Inactive) + len(s.NotSelected)
	n := &PerNode{Pods: make([]pernode.Pod, 0, all), objects: make([]*corev1.Pod, 0, all)}
	for i := range s.Active {
		p := &s.Active[i]
		described := pernode.Pod{
			Health: rollout.Unavailable, Updated: p.Updated, PreDeleting: p.Leaving, Rest: restOf(p, o.Rest),
		}
		if p.Available {
			described.Health = rollout.Available
		}
		n.add(p.Pod, described)
	}
	for i, pod := range s.Inactive {
		described := pernode.Pod{Health: rollout.Ended, Updated: s.inactive[i]}
		switch {
		case pod.DeletionTimestamp != nil:
			described.Health = rollout.Terminating
		case o.Ended != nil:
			node, _ := nodefit.NodeOf(pod)
			described.Resting = o.Ended(pod, node) > 0
		}
		n.add(pod, described)
	}
	for i, pod := range s.NotSelected {
		n.add(pod, pernode.Pod{Health: rollout.Terminating, NotSelected: true, Updated: s.notSelected[i]})
	}
	return n
}

func (n *PerNode) add(pod *corev1.Pod, described pernode.Pod) {
	if pod.DeletionTimestamp != nil && podstate.HasEnded(pod) {
		return
	}
	if described.Node, _ = nodefit.NodeOf(pod); described.Node == "" {
		n.Nodeless = append(n.Nodeless, pod)
	}
	described.Name, described.Created = pod.Name, pod.CreationTimestamp.Time
	described.Scheduled, described.Ready = podstate.IsScheduled(pod), podstate.IsReady(pod)
	n.Pods = append(n.Pods, described)
	n.objects = append(n.objects, pod)
}

// Of returns the Pods at the given positions, such as a list in a pernode.Step.
func (n *PerNode) Of(positions []int) []*corev1.Pod {
	pods := make([]*corev1.Pod, len(positions))
	for i, at := range positions {
		pods[i] = n.objects[at]
	}
	return pods
}
