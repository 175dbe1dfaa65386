package uniteddeployment

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/subsets"
)

// wasClosed reports whether the subset is closed, that is, gets no further Pods, according to the stored status.
func (p *part) wasClosed() bool { return p.was != nil && p.was.Status == corev1.ConditionFalse }

// settled returns how many Pods must stay in the subset: the scheduled Pods or, if unschedulable Pods are reserved,
// all Pods. A workload with ordinals deletes the Pods with the highest ordinals first, so a pending Pod stays if a
// Pod with a higher ordinal must stay.
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

// hold keeps the replicas of subsets that were closed before this reconciliation at the stored numbers until the
// substitutes in other subsets are ready. In the middle of a rollout, the Deployment controller deletes Pods of all
// ReplicaSets in proportion. So each smaller number of replicas would also delete running Pods. A subset that is
// closed in this reconciliation is scaled down once.
func (o *observation) hold(parts []*part) {
	if !o.settings.adaptive || o.settings.reserve || !slices.ContainsFunc(parts, (*part).awaitsPods) {
		return
	}
	for _, p := range parts {
		p.hold = p.wasClosed() && p.mark.Standing == subsets.Closed
	}
}

// awaitsPods reports whether Pods of an open subset have not become ready yet.
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

// remembers reports whether a closed subset is about to be scaled down below the replicas in the status. The new
// number must be stored in the status first, because a reconciliation after a crash would scale the subset down a
// second time.
func (o *observation) remembers(p *part) bool {
	return p.mark.Standing == subsets.Closed && !o.settings.reserve && p.have != nil &&
		p.replicas < int(partsOf(p.have).replicas) && (!p.wasClosed() || p.replicas < p.told)
}
