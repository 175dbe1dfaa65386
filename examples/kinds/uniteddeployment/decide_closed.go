package uniteddeployment

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/subsets"
)

// wasClosed reports whether the subset was closed in the stored status.
func (p *part) wasClosed() bool { return p.was != nil && p.was.Status == corev1.ConditionFalse }

// settled counts the Pods that hold a place. A workload with numbers gives up the highest numbers first, so a pending
// Pod below a settled one stays. Pods that are to be reserved hold their places.
func (o *observation) settled(p *part) (n int) {
	numbers, numbered := workloads.Ordinals(p.have, o.fromStart)
	for _, pod := range p.pods {
		switch {
		case !o.settings.reserve && !podstate.IsScheduled(pod):
		case numbered && !numbers.IsZero():
			ordinal, ok := ordinals.OfPod(p.have.GetName(), pod)
			if before, wanted := numbers.Index(ordinal); ok && wanted {
				n = max(n, before+1)
			}
		default:
			n++
		}
	}
	return n
}

// hold leaves closed subsets their stored replicas until the substitutes in other subsets are ready. A Deployment in
// the middle of a rollout is scaled down in proportion over its ReplicaSets, so a smaller number costs settled Pods,
// too: the subset would lose one after the other. A subset that closes only now is lowered once.
func (o *observation) hold(parts []*part) {
	if !o.settings.adaptive || o.settings.reserve || !slices.ContainsFunc(parts, (*part).awaitsPods) {
		return
	}
	for _, p := range parts {
		p.hold = p.wasClosed() && p.mark.Standing == subsets.Closed
	}
}

// awaitsPods reports whether the Pods of an open subset are to become ready.
func (p *part) awaitsPods() bool {
	want, ready := p.told, 0
	if p.have != nil {
		want = max(want, int(partsOf(p.have).replicas))
	}
	for _, pod := range p.pods {
		if podstate.IsReady(pod) {
			ready++
		}
	}
	return !p.wasClosed() && ready < want
}

// remembers reports whether a closed subset is about to be lowered below its stored replicas. Without the stored number
// a pass after a crash would lower the subset once more.
func (o *observation) remembers(p *part) bool {
	return p.mark.Standing == subsets.Closed && !o.settings.reserve && p.have != nil &&
		p.replicas < int(partsOf(p.have).replicas) && (!p.wasClosed() || p.replicas < p.told)
}
