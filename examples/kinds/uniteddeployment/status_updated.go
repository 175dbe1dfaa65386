package uniteddeployment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// isUpdated returns the condition UnitedDeploymentUpdated. A change of a subset's patch makes no revision, but the Pods of
// the subset are updated, too.
func (o *observation) isUpdated(t *todo, current string) v1beta1.Condition {
	c := v1beta1.Condition{Type: apps.ConditionUnitedDeploymentUpdated, Status: corev1.ConditionFalse}
	updating := o.updating(t)
	switch {
	case current != o.revision:
		c.Reason, c.Message = apps.ReasonRevisionUpdating, "updating to revision "+o.revision
	case len(t.subsets) == 0 && o.settings.replicas > 0:
		c.Reason = apps.ReasonNoSubsets
		c.Message = fmt.Sprintf("none of %d Pods is at revision %s: %s is empty; add a subset", o.settings.replicas, o.revision, topologyPath)
	case len(updating) > 0:
		c.Reason, c.Message = apps.ReasonSubsetsUpdating, "updating subsets: "+kruise.Some(updating, "subsets")
	default:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, apps.ReasonRevisionUpdated, "updated to revision "+o.revision
	}
	if paused := t.paused(); c.Status == corev1.ConditionFalse && len(paused) > 0 {
		c.Message += "; updates are paused in the workloads of subsets " + kruise.Some(paused, "subsets")
	}
	return c
}

// updating returns a text about each subset whose Pods are being updated because the subset's patch has changed. Such
// an update has ended when all Pods are updated and ready. If a Pod becomes unready later, the update does not begin
// again.
func (o *observation) updating(t *todo) (texts []string) {
	was := o.ud.Status.Conditions.Find(apps.ConditionUnitedDeploymentUpdated)
	under := was != nil && was.Reason == apps.ReasonSubsetsUpdating
	for _, p := range t.subsets {
		if p.have == nil {
			continue
		}
		is, wanted := partsOf(p.have), p.replicas-len(p.reserved)
		begins := p.change != nil && p.change.Whole
		if begins || is.outdated > 0 || under && (is.isStale || p.updatedReady < wanted) {
			texts = append(texts, fmt.Sprintf("%s (Pods: %d, not updated: %d, not ready: %d)", p.spec.Name, is.pods, max(is.outdated, 0), max(is.pods-is.ready, 0)))
		}
	}
	return texts
}

// paused names the subsets with workloads whose updates are paused.
func (t *todo) paused() (names []string) {
	for _, p := range t.subsets {
		if p.have != nil && partsOf(p.have).isPaused {
			names = append(names, p.spec.Name)
		}
	}
	return names
}
