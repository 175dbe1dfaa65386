package uniteddeployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/subsets"
)

// outcome contains the results of a reconciliation's writes.
type outcome struct {
	// provisioned is true if workloads were created or deleted.
	provisioned bool
	// provision contains the errors of creations and deletions, and update the errors of changes. surplus contains
	// the errors in provision about deletions in subsets with several workloads.
	provision, update, surplus error
}

// notReserved selects the Pods that an autoscaler must count.
const notReserved = apps.LabelReservedPod + "=false"

// nextStatus returns the status to write after a reconciliation.
func nextStatus(o *observation, t *todo, done outcome, collisions *int32) v1beta1.UnitedDeploymentStatus {
	was, now := &o.ud.Status, metav1.NewTime(o.now)
	status := v1beta1.UnitedDeploymentStatus{
		ObservedGeneration: o.ud.Generation, CurrentRevision: was.CurrentRevision, UpdatedRevision: o.revision, CollisionCount: collisions,
		LabelSelector: o.settings.selector.String(), Conditions: slices.Clone(was.Conditions),
	}
	for _, p := range t.subsets {
		status.SubsetStatuses = append(status.SubsetStatuses, o.subsetStatus(p, now))
		status.UpdatedReplicas += int32(p.updated)
		status.UpdatedReadyReplicas += int32(p.updatedReady)
		status.ReservedPods += int32(len(p.reserved))
	}
	var failures []string
	for _, w := range o.workloads {
		is := partsOf(w)
		status.Replicas += is.pods
		status.ReadyReplicas += is.ready
		if is.failure != "" {
			failures = append(failures, w.GetName()+": "+is.failure)
		}
	}
	if o.settings.reserve {
		status.LabelSelector += "," + notReserved
		status.Replicas = o.countSelected()
	}
	if status.CurrentRevision == "" || status.UpdatedReadyReplicas >= int32(o.settings.replicas) {
		status.CurrentRevision = o.revision
	}
	setConditions(&status.Conditions, o, t, done, failures, status.CurrentRevision)
	return status
}

// remembered returns the stored status with the new replicas of the subsets, and with the conditions that say which
// subsets are closed.
func (o *observation) remembered(t *todo) v1beta1.UnitedDeploymentStatus {
	status := *o.ud.Status.DeepCopy()
	status.SubsetStatuses = nil
	for _, p := range t.subsets {
		status.SubsetStatuses = append(status.SubsetStatuses, o.subsetStatus(p, metav1.NewTime(o.now)))
	}
	return status
}

// countSelected counts the Pods that the selector of the scale subresource selects: Pods that do not have the label yet
// are not selected.
func (o *observation) countSelected() (n int32) {
	for _, w := range o.workloads {
		for _, pod := range o.pods(w.GetUID()) {
			if pod.Labels[apps.LabelReservedPod] == "false" {
				n++
			}
		}
	}
	return n
}

func setConditions(conditions *v1beta1.Conditions, o *observation, t *todo, done outcome, failures []string, current string) {
	now := metav1.NewTime(o.now)
	conditions.Set(o.isUpdated(t, current), now)
	provisioned := conditions.Find(apps.ConditionSubsetProvisioned)
	if done.provisioned || done.provision != nil || provisioned != nil && provisioned.Status != corev1.ConditionTrue {
		setSuccess(conditions, apps.ConditionSubsetProvisioned, done.provision, now)
	}
	setSuccess(conditions, apps.ConditionSubsetUpdated, done.update, now)
	if slices.Sort(failures); len(failures) == 0 {
		conditions.Drop(apps.ConditionSubsetFailure)
	} else {
		message := reason.Shorten(strings.Join(failures[:min(len(failures), kruise.ReasonsInEvent)], "; "), 1024)
		conditions.Set(v1beta1.Condition{Type: apps.ConditionSubsetFailure, Status: corev1.ConditionTrue, Reason: apps.ReasonSubsetError, Message: message}, now)
	}
	conditions.SetFailure(apps.ConditionInvalidSpec, nil, now)
	conditions.SetFailure(apps.ConditionOddSpec, o.settings.warnings.Err(), now)
	conditions.SetFailure(apps.ConditionReplicasLimited, t.limited(), now)
}

// setSuccess sets a condition to True if err is nil, otherwise to False.
func setSuccess(conditions *v1beta1.Conditions, name string, err error, now metav1.Time) {
	c := v1beta1.Condition{Type: name, Status: corev1.ConditionTrue}
	if err != nil {
		_, message := reason.Explain(err)
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, apps.ReasonSubsetError, message
	}
	conditions.Set(c, now)
}

// limited returns the reason why some replicas are in no subset; nil if all replicas are in a subset.
func (t *todo) limited() error {
	if t.division.Left > 0 {
		return t.division.Limits.Err()
	}
	return nil
}

// subsetStatus returns the status of a subset, with its reasons.
func (o *observation) subsetStatus(p *part, now metav1.Time) v1beta1.UnitedDeploymentSubsetStatus {
	s := v1beta1.UnitedDeploymentSubsetStatus{Name: p.spec.Name, Replicas: int32(p.replicas), Partition: p.kept, ReservedPods: int32(len(p.reserved))}
	for i := range o.ud.Status.SubsetStatuses {
		if before := &o.ud.Status.SubsetStatuses[i]; before.Name == s.Name {
			s.Conditions = slices.Clone(before.Conditions)
			break
		}
	}
	if p.have != nil {
		s.ReadyReplicas = partsOf(p.have).ready
	}
	switch c := o.schedulable(p); {
	case !o.settings.adaptive:
		s.Conditions.Drop(apps.ConditionSubsetSchedulable)
	case c.Status == corev1.ConditionFalse || p.was != nil:
		s.Conditions.Set(c, now)
	}
	s.Conditions.SetFailure(apps.ConditionSubsetLimited, p.why.Err(), now)
	return s
}

// schedulable returns the condition Schedulable of a subset, which says whether the subset gets further Pods.
func (o *observation) schedulable(p *part) v1beta1.Condition {
	c := v1beta1.Condition{Type: apps.ConditionSubsetSchedulable, Status: corev1.ConditionTrue}
	wasFalse := p.wasClosed()
	if p.mark.Standing == subsets.Open {
		if c.Reason = apps.ReasonSubsetRecover; !wasFalse && p.was != nil {
			c.Reason = p.was.Reason
		}
		return c
	}
	c.Status, c.Reason = corev1.ConditionFalse, apps.ReasonSubsetReschedule
	switch {
	case wasFalse && p.was.Reason == apps.ReasonSubsetCreated && len(p.reserved) == 0:
		c.Reason, c.Message = apps.ReasonSubsetCreated, "new Pods have substitutes in other subsets until they are ready"
	case o.settings.reserve:
		c.Message = fmt.Sprintf("%d Pods have substitutes in other subsets until they have been ready for %s; make room in the subset", len(p.reserved), o.settings.policy.ClosedFor)
	default:
		c.Message = fmt.Sprintf("Pods could not be scheduled within %s: further Pods go to other subsets for %s; make room in the subset", o.settings.policy.PendingFor, o.settings.policy.ClosedFor)
	}
	return c
}

// tell sends events about a reconciliation: what was done, what failed, and which subsets get no further Pods.
func (r *Reconciler) tell(o *observation, t *todo, done outcome) {
	warn := func(event string, err error) {
		_, message := reason.Explain(err)
		r.told.Tell(o.ud, corev1.EventTypeWarning, event, message)
	}
	warn(apps.EventFailedSpecifySubsetReplicas, t.err)
	warn(apps.EventFailedDeleteDuplicatedSubsets, done.surplus)
	warn(apps.EventReplicasLimited, t.limited())
	if t.err == nil {
		warn(apps.EventFailedUpdateSubset, errors.Join(done.provision, done.update))
	}
	r.tellStandings(o, t)
	var did []string
	for _, w := range slices.Concat(t.surplus, t.gone) {
		did = append(did, "deleted "+w.GetName())
	}
	for _, p := range t.subsets {
		if text := o.deed(p); text != "" {
			did = append(did, text)
		}
	}
	if len(did) > 0 && done.provision == nil && done.update == nil {
		if why := t.division.Limits; len(why) > 0 {
			did = append(did, "because "+why.Summary(kruise.ReasonsInEvent))
		}
		r.told.Tell(o.ud, corev1.EventTypeNormal, apps.EventSuccessfulUpdateSubset, kruise.Some(did, "changes"))
	}
}

// tellStandings sends events about subsets that get no further Pods, or get Pods again.
func (r *Reconciler) tellStandings(o *observation, t *todo) {
	var closed, opened []string
	for _, p := range t.subsets {
		was, is := p.wasClosed(), o.schedulable(p)
		switch {
		case !o.settings.adaptive || was == (is.Status == corev1.ConditionFalse):
		case was:
			opened = append(opened, "subset "+p.spec.Name+" takes Pods again")
		default:
			closed = append(closed, "subset "+p.spec.Name+": "+is.Message)
		}
	}
	r.told.Tell(o.ud, corev1.EventTypeWarning, apps.EventSubsetUnschedulable, kruise.Some(closed, "subsets"))
	r.told.Tell(o.ud, corev1.EventTypeNormal, apps.EventSubsetSchedulable, kruise.Some(opened, "subsets"))
}

// deed returns a text about the change that a reconciliation has made in a subset.
func (o *observation) deed(p *part) string {
	switch {
	case p.create != nil:
		return fmt.Sprintf("created subset %s with %d Pods", p.spec.Name, p.replicas)
	case p.change != nil && p.change.Whole:
		return fmt.Sprintf("updated subset %s to revision %s with %d Pods", p.spec.Name, o.revision, p.replicas)
	case p.change != nil:
		return fmt.Sprintf("subset %s has %d instead of %d Pods, and keeps %d at an older revision", p.spec.Name, p.replicas, partsOf(p.have).replicas, p.kept)
	}
	return ""
}
