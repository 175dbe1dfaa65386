package resourcedistribution

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// longest is the largest length of a condition's message, in bytes. Longer messages of the API server are cut.
const longest = 1024

// conditionTypes returns the types of all conditions, in the order of the status.
func conditionTypes() []v1beta1.ResourceDistributionConditionType {
	return []v1beta1.ResourceDistributionConditionType{
		v1beta1.ResourceDistributionGetResourceFailed,
		v1beta1.ResourceDistributionCreateResourceFailed,
		v1beta1.ResourceDistributionUpdateResourceFailed,
		v1beta1.ResourceDistributionDeleteResourceFailed,
		v1beta1.ResourceDistributionConflictOccurred,
		v1beta1.ResourceDistributionNamespaceNotExists,
	}
}

// statusOf returns the status of a ResourceDistribution. desired is the number of namespaces that must have a copy, and
// succeeded the number of namespaces whose copy matches the template. failures contains errors by condition and by
// namespace. The result has all six conditions, in the order of conditionTypes. A condition's reason comes from the
// first namespace by name, and so does not depend on the order of events. A transition time changes only if the status
// of the condition changes.
func statusOf(
	owner *v1beta1.ResourceDistribution, desired, succeeded int, failures map[v1beta1.ResourceDistributionConditionType]map[string]error, now metav1.Time,
) v1beta1.ResourceDistributionStatus {
	status := v1beta1.ResourceDistributionStatus{
		ObservedGeneration: owner.Generation, Desired: int32(desired), Succeeded: int32(succeeded), Failed: int32(desired - succeeded),
	}
	before := byType(owner.Status.Conditions)
	for _, name := range conditionTypes() {
		condition := v1beta1.ResourceDistributionCondition{
			Type: name, Status: v1beta1.ResourceDistributionConditionFalse, Reason: v1beta1.ResourceDistributionSucceeded, LastTransitionTime: now,
		}
		if failed := failures[name]; len(failed) > 0 {
			condition.Status, condition.FailedNamespaces = v1beta1.ResourceDistributionConditionTrue, slices.Sorted(maps.Keys(failed))
			_, message := reason.Explain(failed[condition.FailedNamespaces[0]])
			condition.Reason = reason.Shorten(message, longest)
		}
		if was, ok := before[name]; ok && was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		status.Conditions = append(status.Conditions, condition)
	}
	return status
}

// refused returns the status of an invalid ResourceDistribution, whose copies are not changed. The condition for failed
// updates contains the reason.
func refused(owner *v1beta1.ResourceDistribution, why error, now metav1.Time) v1beta1.ResourceDistributionStatus {
	_, message := reason.Explain(why)
	before := owner.Status
	status := statusOf(owner, int(before.Desired), int(before.Succeeded), nil, now)
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type != v1beta1.ResourceDistributionUpdateResourceFailed {
			continue
		}
		condition.Status, condition.Reason = v1beta1.ResourceDistributionConditionTrue, reason.Shorten(message, longest)
		condition.LastTransitionTime = now
		if was := byType(before.Conditions)[condition.Type]; was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
	}
	return status
}

// news returns the conditions in after that report failures, unless the same failures are in before.
func news(before, after []v1beta1.ResourceDistributionCondition) (out []v1beta1.ResourceDistributionCondition) {
	were := byType(before)
	for _, is := range after {
		was := were[is.Type]
		if is.Status == v1beta1.ResourceDistributionConditionTrue && (was.Status != is.Status || was.Reason != is.Reason) {
			out = append(out, is)
		}
	}
	return out
}

func byType(conditions []v1beta1.ResourceDistributionCondition) map[v1beta1.ResourceDistributionConditionType]v1beta1.ResourceDistributionCondition {
	out := make(map[v1beta1.ResourceDistributionConditionType]v1beta1.ResourceDistributionCondition, len(conditions))
	for _, condition := range conditions {
		out[condition.Type] = condition
	}
	return out
}
