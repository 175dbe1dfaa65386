package podunavailablebudget_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/podunavailablebudget"
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

// budget is a valid budget, with edits.
func budget(edits ...func(*v1beta1.PodUnavailableBudget)) *v1beta1.PodUnavailableBudget {
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

// many is a selector of many expressions, each with many values.
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

// problems are the paths and kinds of errors.
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
		{"selector and a number", budget(), nil},
		{"target and a percentage", budget(targets(target("apps/v1", "Deployment", "web")), bounds(nil, bound("50%"))), nil},
		{"a percentage with decimals", budget(bounds(bound("12.5%"), nil)), nil},
		{"nothing may be away", budget(bounds(bound("0"), nil)), nil},
		{"all operations", budget(operations(podunavailablebudget.Operations()...)), nil},
		{"PUB-3 an annotation", budget(annotated("3")), nil},
		{"PUB-3 that says what the spec says", budget(annotated("3"), replicas(3)), nil},
		{"PUB-3 that says something else", budget(annotated("3"), replicas(4)), []string{"metadata.annotations[pub.kruise.io/protect-total-replicas] FieldValueInvalid"}},
		{"PUB-3 that is no number", budget(annotated("many")), []string{"metadata.annotations[pub.kruise.io/protect-total-replicas] FieldValueInvalid"}},
		{"PUB-3 that is too large", budget(annotated("4294967296")), []string{"metadata.annotations[pub.kruise.io/protect-total-replicas] FieldValueInvalid"}},
		{"3.1 neither selector nor target", budget(selects(nil)), []string{"spec.selector FieldValueRequired"}},
		{"3.1 both", budget(targets(target("apps/v1", "Deployment", "web")), selects(matching(map[string]string{"app": "web"}))), []string{"spec.targetRef FieldValueForbidden"}},
		{"3.1 an empty selector", budget(selects(&metav1.LabelSelector{})), []string{"spec.selector FieldValueRequired"}},
		{"3.1 a selector that makes no sense", budget(selects(expression("app", "Maybe"))), []string{"spec.selector.matchExpressions[0].operator FieldValueInvalid"}},
		{"3.1 a target without anything", budget(targets(target("", "", ""))), []string{
			"spec.targetRef.apiVersion FieldValueRequired", "spec.targetRef.kind FieldValueRequired", "spec.targetRef.name FieldValueRequired",
		}},
		{"3.1 a target's version", budget(targets(target("a/b/c", "Deployment", "web"))), []string{"spec.targetRef.apiVersion FieldValueInvalid"}},
		{"3.1 neither bound", budget(bounds(nil, nil)), []string{"spec.maxUnavailable FieldValueRequired"}},
		{"3.1 both bounds", budget(bounds(bound("1"), bound("1"))), []string{"spec.minAvailable FieldValueForbidden"}},
		{"3.1 a negative number", budget(bounds(bound("-1"), nil)), []string{"spec.maxUnavailable FieldValueInvalid"}},
		{"3.1 more than 100 %", budget(bounds(nil, bound("101%"))), []string{"spec.minAvailable FieldValueInvalid"}},
		{"3.1 junk", budget(bounds(bound("many"), nil)), []string{"spec.maxUnavailable FieldValueInvalid"}},
		{"a selector of too many labels", budget(selects(many(101, 1))), []string{"spec.selector FieldValueTooMany"}},
		{"a selector of too many values", budget(selects(many(2, 501))), []string{"spec.selector.matchExpressions FieldValueTooMany"}},
		{"as many as may be", budget(selects(many(100, 10))), nil},
		{"the same of Pods to ignore", budget(func(b *v1beta1.PodUnavailableBudget) { b.Spec.IgnoredPodSelector = many(101, 1) }), []string{"spec.ignoredPodSelector FieldValueTooMany"}},
		{"3.1 an unknown operation", budget(operations("MOVE")), []string{"spec.protectOperations[0] FieldValueNotSupported"}},
		{"an operation twice", budget(operations("EVICT", "EVICT")), []string{"spec.protectOperations[1] FieldValueDuplicate"}},
		{"3.1 no replicas", budget(func(b *v1beta1.PodUnavailableBudget) { b.Spec.ProtectTotalReplicas = new(int32) }), []string{"spec.protectTotalReplicas FieldValueInvalid"}},
		{"3.1 all Pods are ignored", budget(func(b *v1beta1.PodUnavailableBudget) { b.Spec.IgnoredPodSelector = &metav1.LabelSelector{} }), []string{"spec.ignoredPodSelector FieldValueRequired"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, problems(podunavailablebudget.ValidateCreate(tc.obj, nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	other := func(edits ...func(*v1beta1.PodUnavailableBudget)) *v1beta1.PodUnavailableBudget {
		b := budget(edits...)
		b.Name = "other"
		return b
	}
	web := map[string]string{"app": "web"}
	for _, tc := range []struct {
		name       string
		obj, other *v1beta1.PodUnavailableBudget
		want       []string
	}{
		{"PUB-2 the same labels", budget(), other(), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 another value", budget(), other(selects(matching(map[string]string{"app": "db"}))), nil},
		{"PUB-2 another key", budget(), other(selects(matching(map[string]string{"tier": "front"}))), nil},
		{"PUB-2 one key more", budget(), other(selects(matching(map[string]string{"app": "web", "tier": "front"}))), nil},
		{"PUB-2 a value of several", budget(), other(selects(expression("app", "In", "db", "web"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 any value", budget(), other(selects(expression("app", "Exists"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 all but this value", budget(), other(selects(expression("app", "NotIn", "web"))), nil},
		{"PUB-2 none and none of some", budget(selects(expression("app", "DoesNotExist"))), other(selects(expression("app", "NotIn", "web"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 any and none", budget(selects(expression("app", "Exists"))), other(selects(expression("app", "DoesNotExist"))), nil},
		{"PUB-2 anything but two values", budget(selects(expression("app", "NotIn", "a"))), other(selects(expression("app", "NotIn", "x"))), []string{"spec.selector FieldValueInvalid"}},
		{"PUB-2 the same workload in another version", budget(targets(target("apps.kruise.io/v1alpha1", "CloneSet", "web"))), other(targets(target("apps.kruise.io/v1beta1", "CloneSet", "web"))), []string{"spec.targetRef FieldValueInvalid"}},
		{"PUB-2 a workload of another group", budget(targets(target("apps/v1", "StatefulSet", "web"))), other(targets(target("apps.kruise.io/v1beta1", "StatefulSet", "web"))), nil},
		{"PUB-2 a workload and labels", budget(targets(target("apps/v1", "Deployment", "web"))), other(), nil},
		{"another namespace", budget(), other(func(b *v1beta1.PodUnavailableBudget) { b.Namespace = "elsewhere" }), nil},
		{"one that is being deleted", budget(), other(func(b *v1beta1.PodUnavailableBudget) { b.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), nil},
		{"itself", budget(), budget(selects(matching(web))), nil},
		{"another one that makes no sense", budget(), other(selects(expression("app", "Maybe"))), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := problems(podunavailablebudget.ValidateCreate(tc.obj, []*v1beta1.PodUnavailableBudget{tc.other}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	broken := budget(bounds(nil, nil))
	for _, tc := range []struct {
		name        string
		obj, stored *v1beta1.PodUnavailableBudget
		want        []string
	}{
		{"another bound", budget(bounds(nil, bound("50%"))), budget(), nil},
		{"3.1 another selector", budget(selects(matching(map[string]string{"app": "db"}))), budget(), []string{"spec.selector FieldValueForbidden"}},
		{"3.1 another target", budget(targets(target("apps/v1", "Deployment", "db"))), budget(targets(target("apps/v1", "Deployment", "web"))), []string{"spec.targetRef FieldValueForbidden"}},
		{"a target in place of a selector", budget(targets(target("apps/v1", "Deployment", "web"))), budget(), []string{"spec.selector FieldValueForbidden", "spec.targetRef FieldValueForbidden"}},
		{"what is stored already", broken, broken.DeepCopy(), nil},
		{"a selector of too many labels that is stored", budget(selects(many(200, 1)), bounds(nil, bound("1"))), budget(selects(many(200, 1))), nil},
		{"a new problem beside one that is stored", budget(bounds(nil, nil), operations("MOVE")), broken, []string{"spec.protectOperations[0] FieldValueNotSupported"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, problems(podunavailablebudget.ValidateUpdate(tc.obj, tc.stored))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
