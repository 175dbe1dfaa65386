package resourcedistribution

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
)

// longest is how much of a reason a condition has, in bytes: an API server may answer with pages.
const longest = 1024

// conditionTypes are the conditions in their order, each with its event.
func conditionTypes() []struct {
	name  v1beta1.ResourceDistributionConditionType
	event string
} {
	return []struct {
		name  v1beta1.ResourceDistributionConditionType
		event string
	}{
		{v1beta1.ResourceDistributionGetResourceFailed, apps.EventFailedUpdate},
		{v1beta1.ResourceDistributionCreateResourceFailed, apps.EventFailedCreate},
		{v1beta1.ResourceDistributionUpdateResourceFailed, apps.EventFailedUpdate},
		{v1beta1.ResourceDistributionDeleteResourceFailed, apps.EventFailedDelete},
		{v1beta1.ResourceDistributionConflictOccurred, apps.EventNamespaceConflict},
		{v1beta1.ResourceDistributionNamespaceNotExists, apps.EventNamespaceNotExists},
	}
}

// report returns the status after a pass, and sends the events of what has changed.
func (r *Reconciler) report(v *view, w *work) v1beta1.ResourceDistributionStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := Status(v.Owner, w.desired, w.succeeded, w.failures, metav1.NewTime(v.Now))
	before := byType(v.Owner.Status.Conditions)
	for i, kind := range conditionTypes() {
		is, was := &status.Conditions[i], before[kind.name]
		if is.Status == v1beta1.ResourceDistributionConditionTrue && (was.Status != is.Status || was.Reason != is.Reason) {
			r.events.Eventf(v.Owner, corev1.EventTypeWarning, kind.event, "%s: %s", some(is.FailedNamespaces), is.Reason)
		}
	}
	for _, how := range []struct {
		verb
		event string
	}{{created, apps.EventSuccessfulCreate}, {updated, apps.EventSuccessfulUpdate}, {deleted, apps.EventSuccessfulDelete}} {
		if namespaces := slices.Sorted(slices.Values(w.wrote[how.verb])); len(namespaces) > 0 {
			r.options.Metrics.Copied(string(how.verb), len(namespaces))
			r.events.Eventf(v.Owner, corev1.EventTypeNormal, how.event, "%s %s %s in %s", how.verb, w.resource.Kind, w.resource.Name, some(namespaces))
		}
	}
	return status
}

// some names a few namespaces.
func some(namespaces []string) string {
	const most = 5
	if more := len(namespaces) - most; more > 0 {
		return fmt.Sprintf("%s and %d more namespaces", strings.Join(namespaces[:most], ", "), more)
	}
	return strings.Join(namespaces, ", ")
}

// Status returns the status of a ResourceDistribution: how many namespaces are to have a copy and how many have it, and what has failed, by condition
// and namespace. All six conditions are in it, in their order. A reason is that of the first namespace by name, so that it does not depend on who was
// first. Times change with the status of a condition alone.
func Status(
	owner *v1beta1.ResourceDistribution, desired, succeeded int, failures map[v1beta1.ResourceDistributionConditionType]map[string]error, now metav1.Time,
) v1beta1.ResourceDistributionStatus {
	status := v1beta1.ResourceDistributionStatus{
		ObservedGeneration: owner.Generation, Desired: int32(desired), Succeeded: int32(succeeded), Failed: int32(desired - succeeded),
	}
	before := byType(owner.Status.Conditions)
	for _, kind := range conditionTypes() {
		condition := v1beta1.ResourceDistributionCondition{
			Type: kind.name, Status: v1beta1.ResourceDistributionConditionFalse, Reason: v1beta1.ResourceDistributionSucceeded, LastTransitionTime: now,
		}
		if failed := failures[kind.name]; len(failed) > 0 {
			condition.Status, condition.FailedNamespaces = v1beta1.ResourceDistributionConditionTrue, slices.Sorted(maps.Keys(failed))
			_, message := reason.Explain(failed[condition.FailedNamespaces[0]])
			condition.Reason = reason.Shorten(message, longest)
		}
		if was, ok := before[kind.name]; ok && was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		status.Conditions = append(status.Conditions, condition)
	}
	return status
}

func byType(conditions []v1beta1.ResourceDistributionCondition) map[v1beta1.ResourceDistributionConditionType]v1beta1.ResourceDistributionCondition {
	out := make(map[v1beta1.ResourceDistributionConditionType]v1beta1.ResourceDistributionCondition, len(conditions))
	for _, condition := range conditions {
		out[condition.Type] = condition
	}
	return out
}

// refuse leaves the copies of a ResourceDistribution alone that makes no sense, and says so: in an event, and in the condition of the copies that
// cannot be updated.
func (r *Reconciler) refuse(ctx context.Context, v *view, pass *fanout.Pass, err error) (ctrl.Result, error) {
	_, message := reason.Explain(err)
	before := v.Owner.Status
	status := Status(v.Owner, int(before.Desired), int(before.Succeeded), nil, metav1.NewTime(v.Now))
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type != v1beta1.ResourceDistributionUpdateResourceFailed {
			continue
		}
		was := byType(before.Conditions)[condition.Type]
		condition.Status, condition.Reason = v1beta1.ResourceDistributionConditionTrue, reason.Shorten(message, longest)
		condition.LastTransitionTime = metav1.NewTime(v.Now)
		if was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		if was.Status != condition.Status || was.Reason != condition.Reason {
			r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventInvalidResourceDistribution, message)
		}
	}
	_, statusErr := v.WriteStatus(ctx, status)
	return pass.Result(reason.Final(err), statusErr)
}
