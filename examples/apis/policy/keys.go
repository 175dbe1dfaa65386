// Package policy holds the names of the group policy.kruise.io that are not types: labels and annotations.
package policy

// Group is the API group of the policies.
const Group = "policy.kruise.io"

// Annotations of PodUnavailableBudgets. In v1alpha1 they stand for fields of v1beta1.
const (
	// AnnotationProtectOperations stands for spec.protectOperations. Value: "DELETE,EVICT".
	AnnotationProtectOperations = "kruise.io/pub-protect-operations"
	// AnnotationProtectTotalReplicas stands for spec.protectTotalReplicas. Value: a decimal number, "15".
	AnnotationProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"
)

// Annotations of Pods.
const (
	// AnnotationRelatedBudget names the budget that a Pod is protected by. Written by admission at creation, and by the controller where it
	// is missing. AnnotationRelatedBudgetOld is the same under the name that it had before: both are written.
	AnnotationRelatedBudget    = "pub.kruise.io/related-pub"
	AnnotationRelatedBudgetOld = "kruise.io/related-pub"
	// AnnotationOtherBudgets names the other budgets that a Pod is protected by, sorted, by commas. Written as AnnotationRelatedBudget is. OpenKruise
	// knows one budget of a Pod, and does not read it.
	AnnotationOtherBudgets = "workloadkit.io/other-pubs"
	// AnnotationNoProtect takes the Pod out of all budgets. Written by users. Value: a boolean, as strconv.ParseBool reads it.
	AnnotationNoProtect = "pub.kruise.io/no-protect"
)
