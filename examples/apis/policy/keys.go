// Package policy contains the labels and annotations of the API group policy.kruise.io.
package policy

// Group is the API group of the policies.
const Group = "policy.kruise.io"

// These are the annotations of PodUnavailableBudgets. In v1alpha1 the annotations stand for fields of v1beta1.
const (
	// AnnotationProtectOperations stands for spec.protectOperations. Value: "DELETE,EVICT".
	AnnotationProtectOperations = "kruise.io/pub-protect-operations"
	// AnnotationProtectTotalReplicas stands for spec.protectTotalReplicas. Value: a decimal number, "15".
	AnnotationProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"
)

// These are the annotations of Pods.
const (
	// AnnotationRelatedBudget names the budget that protects a Pod. The value is written by admission at creation, and
	// by the controller if missing. AnnotationRelatedBudgetOld is the older name of AnnotationRelatedBudget; both
	// annotations are written.
	AnnotationRelatedBudget    = "pub.kruise.io/related-pub"
	AnnotationRelatedBudgetOld = "kruise.io/related-pub"
	// AnnotationOtherBudgets names all further budgets that protect a Pod, sorted, separated by commas. The value is
	// written together with AnnotationRelatedBudget. OpenKruise supports only a single budget per Pod, and does not
	// read this annotation.
	AnnotationOtherBudgets = "workloadkit.io/other-pubs"
	// AnnotationNoProtect on a Pod excludes the Pod from all budgets. The value is written by users. Value: a boolean
	// for strconv.ParseBool.
	AnnotationNoProtect = "pub.kruise.io/no-protect"
)
