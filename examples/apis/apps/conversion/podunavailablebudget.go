package conversion

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/podunavailablebudget"
	policyv1alpha1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

const (
	kindPodUnavailableBudget = "PodUnavailableBudget"
	protectOperationsKey     = "protectOperations"
	protectTotalReplicasKey  = "protectTotalReplicas"
	ignoredPodSelectorKey    = "ignoredPodSelector"
)

// budgetKeys are the fields read by conversion in a PodUnavailableBudget's spec.
func budgetKeys() []string {
	return []string{protectOperationsKey, protectTotalReplicasKey, ignoredPodSelectorKey}
}

// budgetAnnotations are the annotations of v1alpha1 that stand for fields.
func budgetAnnotations() []string {
	return []string{policy.AnnotationProtectOperations, policy.AnnotationProtectTotalReplicas}
}

// PodUnavailableBudgetToV1beta1 converts and restores the values kept by [PodUnavailableBudgetToV1alpha1]. The result
// shares no memory with src. An error means that src holds values JSON cannot express.
//
// Two annotations stand for fields of v1beta1, and stay. An invalid annotation stands for nothing.
func PodUnavailableBudgetToV1beta1(src *policyv1alpha1.PodUnavailableBudget) (*policyv1beta1.PodUnavailableBudget, error) {
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1beta1Only)
	dropAnnotation(src, apps.AnnotationV1alpha1Only)
	dst := plainBudgetBeta(src)
	if err := note.restore(budgetBetaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1beta1: %w", err)
	}
	back := plainBudgetAlpha(dst)
	if err := writeNote(dst, apps.AnnotationV1alpha1Only, budgetAlphaFields(src), budgetAlphaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1alpha1: %w", err)
	}
	return dst, nil
}

// PodUnavailableBudgetToV1alpha1 converts and restores the values kept by [PodUnavailableBudgetToV1beta1]. The result
// shares no memory with src. An error means that src holds values JSON cannot express.
func PodUnavailableBudgetToV1alpha1(src *policyv1beta1.PodUnavailableBudget) (*policyv1alpha1.PodUnavailableBudget, error) {
	src = src.DeepCopy()
	note := takeNote(src, apps.AnnotationV1alpha1Only)
	dropAnnotation(src, apps.AnnotationV1beta1Only)
	dst := plainBudgetAlpha(src)
	if err := note.restore(budgetAlphaFields(dst)); err != nil {
		return nil, fmt.Errorf("restoring fields of v1alpha1: %w", err)
	}
	back := plainBudgetBeta(dst)
	if err := writeNote(dst, apps.AnnotationV1beta1Only, budgetBetaFields(src), budgetBetaFields(back)); err != nil {
		return nil, fmt.Errorf("keeping fields of v1beta1: %w", err)
	}
	return dst, nil
}

func budgetToBeta(object []byte) ([]byte, error) {
	return convertJSON(object, policyv1beta1.GroupVersion.String(), budgetKeys(), PodUnavailableBudgetToV1beta1)
}

func budgetToAlpha(object []byte) ([]byte, error) {
	return convertJSON(object, policyv1alpha1.GroupVersion.String(), budgetKeys(), PodUnavailableBudgetToV1alpha1)
}

// budgetParts returns the fields as read by the Go types of a PodUnavailableBudget.
func budgetParts(object []byte, apiVersion string) (map[string]any, error) {
	if apiVersion == policyv1alpha1.GroupVersion.String() {
		return readParts[policyv1alpha1.PodUnavailableBudget](object, budgetKeys())
	}
	return readParts[policyv1beta1.PodUnavailableBudget](object, budgetKeys())
}

// plainBudgetBeta converts without the annotation of this package.
func plainBudgetBeta(src *policyv1alpha1.PodUnavailableBudget) *policyv1beta1.PodUnavailableBudget {
	src = src.DeepCopy()
	dst := &policyv1beta1.PodUnavailableBudget{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Status: budgetStatusBeta(&src.Status)}
	dst.SetGroupVersionKind(policyv1beta1.GroupVersion.WithKind(kindPodUnavailableBudget))
	dst.Spec = policyv1beta1.PodUnavailableBudgetSpec{
		Selector:             src.Spec.Selector,
		TargetReference:      (*policyv1beta1.TargetReference)(src.Spec.TargetReference),
		MaxUnavailable:       src.Spec.MaxUnavailable,
		MinAvailable:         src.Spec.MinAvailable,
		ProtectOperations:    podunavailablebudget.OperationsIn(src.Annotations[policy.AnnotationProtectOperations]),
		ProtectTotalReplicas: readReplicas(src.Annotations[policy.AnnotationProtectTotalReplicas]),
	}
	return dst
}

// plainBudgetAlpha converts without the annotation of this package.
func plainBudgetAlpha(src *policyv1beta1.PodUnavailableBudget) *policyv1alpha1.PodUnavailableBudget {
	src = src.DeepCopy()
	dst := &policyv1alpha1.PodUnavailableBudget{TypeMeta: src.TypeMeta, ObjectMeta: src.ObjectMeta, Status: budgetStatusAlpha(&src.Status)}
	dst.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind(kindPodUnavailableBudget))
	dst.Spec = policyv1alpha1.PodUnavailableBudgetSpec{
		Selector:        src.Spec.Selector,
		TargetReference: (*policyv1alpha1.TargetReference)(src.Spec.TargetReference),
		MaxUnavailable:  src.Spec.MaxUnavailable,
		MinAvailable:    src.Spec.MinAvailable,
	}
	show(dst, policy.AnnotationProtectOperations, readOperations(joined(src.Spec.ProtectOperations)), readOperations, func(text string) string { return text })
	show(dst, policy.AnnotationProtectTotalReplicas, src.Spec.ProtectTotalReplicas, readReplicas, func(n int32) string { return strconv.Itoa(int(n)) })
	return dst
}

func budgetStatusBeta(s *policyv1alpha1.PodUnavailableBudgetStatus) policyv1beta1.PodUnavailableBudgetStatus {
	return policyv1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: s.ObservedGeneration, DisruptedPods: s.DisruptedPods, UnavailablePods: s.UnavailablePods, UnavailableAllowed: s.UnavailableAllowed,
		CurrentAvailable: s.CurrentAvailable, DesiredAvailable: s.DesiredAvailable, TotalReplicas: s.TotalReplicas,
	}
}

func budgetStatusAlpha(s *policyv1beta1.PodUnavailableBudgetStatus) policyv1alpha1.PodUnavailableBudgetStatus {
	return policyv1alpha1.PodUnavailableBudgetStatus{
		ObservedGeneration: s.ObservedGeneration, DisruptedPods: s.DisruptedPods, UnavailablePods: s.UnavailablePods, UnavailableAllowed: s.UnavailableAllowed,
		CurrentAvailable: s.CurrentAvailable, DesiredAvailable: s.DesiredAvailable, TotalReplicas: s.TotalReplicas,
	}
}

func joined(list []policyv1beta1.Operation) string {
	words := make([]string, len(list))
	for i, operation := range list {
		words[i] = string(operation)
	}
	return strings.Join(words, ",")
}

// readOperations returns the operations of a text, as a text; nil for none.
func readOperations(text string) *string {
	list := joined(podunavailablebudget.OperationsIn(text))
	if list == "" {
		return nil
	}
	return &list
}

// readReplicas returns nil for an invalid number of Pods.
func readReplicas(text string) *int32 {
	n := readInt(text)
	if n == nil || *n < 1 {
		return nil
	}
	return n
}

func budgetBetaFields(obj *policyv1beta1.PodUnavailableBudget) fields {
	return fields{
		labels: &obj.Labels, annotations: &obj.Annotations, ownAnnotations: budgetAnnotations(),
		strategies: map[string]any{
			protectOperationsKey: &obj.Spec.ProtectOperations, protectTotalReplicasKey: &obj.Spec.ProtectTotalReplicas,
			ignoredPodSelectorKey: &obj.Spec.IgnoredPodSelector,
		},
	}
}

func budgetAlphaFields(obj *policyv1alpha1.PodUnavailableBudget) fields {
	return fields{labels: &obj.Labels, annotations: &obj.Annotations, ownAnnotations: budgetAnnotations(), strategies: map[string]any{}}
}
