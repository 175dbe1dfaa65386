// Package policy holds the labels and annotations of the group policy.kruise.io.
package policy

// Group is the API group of the policies.
const Group = "policy.kruise.io"

// Annotations of PodUnavailableBudgets. In v1alpha1 the annotations stand for fields of v1beta1.
const (
	// AnnotationProtectOperations stands for spec.protectOperations. Value: "DELETE,EVICT".
	AnnotationProtectOperations = "kruise.io/pub-protect-operations"
	// AnnotationProtectTotalReplicas stands for spec.protectTotalReplicas. Value: a decimal number, "15".
	AnnotationProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"
)

// Annotations of Pods.
const (
	// AnnotationRelatedBudget names the budget that protects a Pod. Written by admission at creation, and by the
	// controller if missing. AnnotationRelatedBudgetOld is the same under the earlier name: both are written.
	AnnotationRelatedBudget    = "pub.kruise.io/related-pub"
	AnnotationRelatedBudgetOld = "kruise.io/related-pub"
	// AnnotationOtherBudgets names all further budgets that protect a Pod, sorted, separated by commas. Written
	// together with AnnotationRelatedBudget. OpenKruise knows a single budget of a Pod, and does not read the
	// annotation.
	AnnotationOtherBudgets = "workloadkit.io/other-pubs"
	// AnnotationNoProtect takes the Pod out of all budgets. Written by users. Value: a boolean for strconv.ParseBool.
	AnnotationNoProtect = "pub.kruise.io/no-protect"
)
