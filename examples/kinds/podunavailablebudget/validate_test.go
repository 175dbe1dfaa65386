package podunavailablebudget

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

func bound(text string) *intstr.IntOrString {
	v := intstr.Parse(text)
	return &v
}

func matching(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func target(apiVersion, kind, name string) *v1beta1.TargetReference {
	return &v1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: name}
}

// valid returns a valid budget, after edits.
func valid(edits ...func(*v1beta1.PodUnavailableBudget)) *v1beta1.PodUnavailableBudget {
	b := &v1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       v1beta1.PodUnavailableBudgetSpec{Selector: matching(map[string]string{"app": "web"}), MaxUnavailable: bound("1")},
	}
	for _, edit := range edits {
		edit(b)
	}
	return b
}

func selects(selector *metav1.LabelSelector) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) { b.Spec.Selector = selector }
}

func targets(ref *v1beta1.TargetReference) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) { b.Spec.Selector, b.Spec.TargetReference = nil, ref }
}

func bounds(most, least *intstr.IntOrString) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable, b.Spec.MinAvailable = most, least }
}

// many returns a selector with many expressions, each with many values.
func many(expressions, values int) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for i := range expressions {
		e := metav1.LabelSelectorRequirement{Key: fmt.Sprintf("key-%d", i), Operator: metav1.LabelSelectorOpNotIn}
		for j := range values {
			e.Values = append(e.Values, fmt.Sprintf("value-%d", j))
		}
		out.MatchExpressions = append(out.MatchExpressions, e)
	}
	return out
}

func annotated(replicas string) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) {
		b.Annotations = map[string]string{policy.AnnotationProtectTotalReplicas: replicas}
	}
}

func replicas(n int32) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) { b.Spec.ProtectTotalReplicas = &n }
}

func operations(list ...v1beta1.Operation) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) { b.Spec.ProtectOperations = list }
}

// problems returns the paths and types of errors.
func problems(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Field+" "+string(err.Type))
	}
	return out
}

func TestValidateCreate(t *testing.T) {
	for _, tc := range []struct {
		name string
		obj  *v1beta1.PodUnavailableBudget
		want []string
	}{
		{"selector and a number", valid(), nil},
		{"target and a percentage", valid(targets(target("apps/v1", "Deployment", "web")), bounds(nil, bound("50%"))), nil},
		{"a percentage with decimals", valid(bounds(bound("12.5%"), nil)), nil},
		{"nothing may be away", valid(bounds(bound("0"), nil)), nil},
		{"all operations", valid(operations(v1beta1.Operations()...)), nil},
		{"PUB-3 an annotation", valid(annotated("3")), nil},
		{"PUB-3 that says what the spec says", valid(annotated("3"), replicas(3)), nil},
		{"PUB-3 that says something else", valid(annotated("3"), replicas(4)), []string{"metadata.annotations[pub.kruise.io/protect-total-replicas] FieldValueInvalid"}},
		{"PUB-3 that is no number", valid(annotated("many")), []string{"metadata.annotations[pub.kruise.io/protect-total-replicas] FieldValueInvalid"}},
		{"PUB-3 that is too large", valid(annotated("4294967296")), []string{"metadata.annotations[pub.kruise.io/protect-total-replicas] FieldValueInvalid"}},
		{"3.1 neither selector nor target", valid(selects(nil)), []string{"spec.selector FieldValueRequired"}},
		{"3.1 both", valid(targets(target("apps/v1", "Deployment", "web")), selects(matching(map[string]string{"app": "web"}))), []string{"spec.targetRef FieldValueForbidden"}},
		{"3.1 an empty selector", valid(selects(&metav1.LabelSelector{})), []string{"spec.selector FieldValueRequired"}},
		{"3.1 a selector that makes no sense", valid(selects(expression("app", "Maybe"))), []string{"spec.selector.matchExpressions[0].operator FieldValueInvalid"}},
		{"3.1 a target without anything", valid(targets(target("", "", ""))), []string{
			"spec.targetRef.apiVersion FieldValueRequired", "spec.targetRef.kind FieldValueRequired", "spec.targetRef.name FieldValueRequired",
		}},
		{"3.1 a target's version", valid(targets(target("a/b/c", "Deployment", "web"))), []string{"spec.targetRef.apiVersion FieldValueInvalid"}},
		{"3.1 neither bound", valid(bounds(nil, nil)), []string{"spec.maxUnavailable FieldValueRequired"}},
		{"3.1 both bounds", valid(bounds(bound("1"), bound("1"))), []string{"spec.minAvailable FieldValueForbidden"}},
		{"3.1 a negative number", valid(bounds(bound("-1"), nil)), []string{"spec.maxUnavailable FieldValueInvalid"}},
		{"3.1 more than 100 %", valid(bounds(nil, bound("101%"))), []string{"spec.minAvailable FieldValueInvalid"}},
		{"3.1 junk", valid(bounds(bound("many"), nil)), []string{"spec.maxUnavailable FieldValueInvalid"}},
		{"a selector of too many labels", valid(selects(many(101, 1))), []string{"spec.selector FieldValueTooMany"}},
		{"a selector of too many values", valid(selects(many(2, 501))), []string{"spec.selector.matchExpressions FieldValueTooMany"}},
		{"as many as may be", valid(selects(many(100, 10))), nil},
		{"the same of Pods to ignore", valid(func(b *v1beta1.PodUnavailableBudget) { b.Spec.IgnoredPodSelector = many(101, 1) }), []string{"spec.ignoredPodSelector FieldValueTooMany"}},
		{"3.1 an unknown operation", valid(operations("MOVE")), []string{"spec.protectOperations[0] FieldValueNotSupported"}},
		{"an operation twice", valid(operations("EVICT", "EVICT")), []string{"spec.protectOperations[1] FieldValueDuplicate"}},
		{"3.1 no replicas", valid(func(b *v1beta1.PodUnavailableBudget) { b.Spec.ProtectTotalReplicas = new(int32) }), []string{"spec.protectTotalReplicas FieldValueInvalid"}},
		{"3.1 all Pods are ignored", valid(func(b *v1beta1.PodUnavailableBudget) { b.Spec.IgnoredPodSelector = &metav1.LabelSelector{} }), []string{"spec.ignoredPodSelector FieldValueRequired"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, errs := validateCreate(tc.obj)
			if diff := cmp.Diff(tc.want, problems(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	other := func(edits ...func(*v1beta1.PodUnavailableBudget)) *v1beta1.PodUnavailableBudget {
		b := valid(edits...)
		b.Name = "other"
		return b
	}
	web := map[string]string{"app": "web"}
	for _, tc := range []struct {
		name       string
		obj, other *v1beta1.PodUnavailableBudget
		want       []string
	}{
		{"PUB-2 the same labels", valid(), other(), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 another value", valid(), other(selects(matching(map[string]string{"app": "db"}))), nil},
		{"PUB-2 another key", valid(), other(selects(matching(map[string]string{"tier": "front"}))), nil},
		{"PUB-2 one key more", valid(), other(selects(matching(map[string]string{"app": "web", "tier": "front"}))), nil},
		{"PUB-2 a value of several", valid(), other(selects(expression("app", "In", "db", "web"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 any value", valid(), other(selects(expression("app", "Exists"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 all but this value", valid(), other(selects(expression("app", "NotIn", "web"))), nil},
		{"PUB-2 none and none of some", valid(selects(expression("app", "DoesNotExist"))), other(selects(expression("app", "NotIn", "web"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 any and none", valid(selects(expression("app", "Exists"))), other(selects(expression("app", "DoesNotExist"))), nil},
		{"PUB-2 anything but two values", valid(selects(expression("app", "NotIn", "a"))), other(selects(expression("app", "NotIn", "x"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 the same workload in another version", valid(targets(target("apps.kruise.io/v1alpha1", "CloneSet", "web"))), other(targets(target("apps.kruise.io/v1beta1", "CloneSet", "web"))), []string{"spec.targetRef FieldValueInvalid"}},
		{"PUB-2 a workload of another group", valid(targets(target("apps/v1", "StatefulSet", "web"))), other(targets(target("apps.kruise.io/v1beta1", "StatefulSet", "web"))), nil},
		{"PUB-2 a workload and labels", valid(targets(target("apps/v1", "Deployment", "web"))), other(), nil},
		{"another namespace", valid(), other(func(b *v1beta1.PodUnavailableBudget) { b.Namespace = "elsewhere" }), nil},
		{"one that is being deleted", valid(), other(func(b *v1beta1.PodUnavailableBudget) { b.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), nil},
		{"itself", valid(), valid(selects(matching(web))), nil},
		{"another one that makes no sense", valid(), other(selects(expression("app", "Maybe"))), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			own, errs := validateCreate(tc.obj)
			errs = append(errs, conflicts(tc.obj, own, []v1beta1.PodUnavailableBudget{*tc.other})...)
			if diff := cmp.Diff(tc.want, problems(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	broken := valid(bounds(nil, nil))
	for _, tc := range []struct {
		name        string
		obj, stored *v1beta1.PodUnavailableBudget
		want        []string
	}{
		{"another bound", valid(bounds(nil, bound("50%"))), valid(), nil},
		{"3.1 another selector", valid(selects(matching(map[string]string{"app": "db"}))), valid(), []string{"spec.selector FieldValueForbidden"}},
		{"3.1 another target", valid(targets(target("apps/v1", "Deployment", "db"))), valid(targets(target("apps/v1", "Deployment", "web"))), []string{"spec.targetRef FieldValueForbidden"}},
		{"a target in place of a selector", valid(targets(target("apps/v1", "Deployment", "web"))), valid(), []string{"spec.selector FieldValueForbidden", "spec.targetRef FieldValueForbidden"}},
		{"what is stored already", broken, broken.DeepCopy(), nil},
		{"a selector of too many labels that is stored", valid(selects(many(200, 1)), bounds(nil, bound("1"))), valid(selects(many(200, 1))), nil},
		{"a new problem beside one that is stored", valid(bounds(nil, nil), operations("MOVE")), broken, []string{"spec.protectOperations[0] FieldValueNotSupported"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, problems(validateUpdate(tc.obj, tc.stored))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
