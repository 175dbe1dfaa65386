package executor

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
)

// Members returns the active Pods of a set, for the count of a disruption budget (disruption.Census.Members). A Pod
// serves while the Pod is ready, is not being updated, and does not wait for its hook before a deletion: a hook may
// drain the Pod. Package rollout also counts such a Pod as unavailable. If the Pod has a readiness gate for updates,
// the gate stays closed until the end of an update, so the Pod counts again as soon as the Pod is ready.
func Members(set *podcontrol.Set) []disruption.Member {
	out := make([]disruption.Member, 0, len(set.Active))
	for i := range set.Active {
		pod := &set.Active[i]
		member := disruption.MemberOf(pod.Pod, serves(pod.Facts))
		member.Settled = pod.Gated && !pod.Updating
		out = append(out, member)
	}
	return out
}

// Serves reports whether a Pod is in service for a disruption budget, by the rule of Members.
func (x *Executor[O]) Serves(pod *corev1.Pod) bool {
	facts := x.control.Read(pod)
	return facts.Active && serves(facts)
}

func serves(facts podcontrol.Facts) bool {
	return facts.Ready && !facts.Updating && facts.State != lifecycle.PreparingDelete
}
