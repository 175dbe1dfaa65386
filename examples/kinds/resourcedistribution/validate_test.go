package resourcedistribution

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const demoMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"demo"},"data":{"k":"v"}}`

func distribution(resource string, edits ...func(*v1beta1.ResourceDistributionTargets)) *v1beta1.ResourceDistribution {
	obj := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: "share"}}
	obj.Spec.Resource.Raw = []byte(resource)
	for _, edit := range edits {
		edit(&obj.Spec.Targets)
	}
	return obj
}

// said returns the errors by path, each with its type.
func said(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, fmt.Sprintf("%s: %s", err.Field, err.Type))
	}
	return out
}

func TestValidateCreate(t *testing.T) {
	targets := func(edit func(*v1beta1.ResourceDistributionTargets)) *v1beta1.ResourceDistribution {
		return distribution(demoMap, edit)
	}
	for _, c := range []struct {
		name string
		obj  *v1beta1.ResourceDistribution
		want []string
	}{
		{"RD-1 a ConfigMap", distribution(demoMap), nil},
		{"RD-1 a Secret", distribution(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"djE="},"type":"x/y"}`), nil},
		{"RD-1 another kind", distribution(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`), []string{"spec.resource.kind: Unsupported value"}},
		{"RD-1 another group", distribution(`{"apiVersion":"apps/v1","kind":"ConfigMap","metadata":{"name":"a"}}`), []string{"spec.resource.apiVersion: Unsupported value"}},
		{"RD-1 nothing", distribution(""), []string{"spec.resource: Required value"}},
		{"RD-1 no JSON", distribution("{"), []string{"spec.resource: Invalid value"}},
		{"RD-1 no object", distribution(`[]`), []string{"spec.resource: Invalid value"}},
		{"RD-1 data of another type", distribution(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":7}}`), []string{"spec.resource.data.k: Invalid value"}},
		{"RD-1 no base64", distribution(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"%"}}`), []string{"spec.resource: Invalid value"}},
		{"a token of a ServiceAccount", distribution(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"type":"kubernetes.io/service-account-token"}`), []string{"spec.resource.type: Forbidden"}},
		{"what Kubernetes keeps in each namespace", distribution(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kube-root-ca.crt"}}`), []string{"spec.resource.metadata.name: Forbidden"}},
		{"RD-1 no name", distribution(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-"}}`), []string{"spec.resource.metadata.name: Required value"}},
		{"RD-1 a name that cannot be", distribution(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"A_"}}`), []string{"spec.resource.metadata.name: Invalid value"}},
		{"RD-1 too large", distribution(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"` + strings.Repeat("x", 1<<20) + `"}}`), []string{"spec.resource.data: Too long"}},
		{
			"RD-1 owners elsewhere",
			distribution(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`),
			[]string{"spec.resource.metadata.ownerReferences: Forbidden"},
		},
		{"RD-2 names that cannot be", targets(func(t *v1beta1.ResourceDistributionTargets) {
			t.IncludedNamespaces, t.ExcludedNamespaces = list("a", "", "B"), list("c.d")
		}), []string{
			"spec.targets.includedNamespaces.list[1].name: Required value", "spec.targets.includedNamespaces.list[2].name: Invalid value",
			"spec.targets.excludedNamespaces.list[0].name: Invalid value",
		}},
		{"RD-2 included and excluded", targets(func(t *v1beta1.ResourceDistributionTargets) {
			t.IncludedNamespaces, t.ExcludedNamespaces = list("a", "b"), list("c", "b")
		}), []string{"spec.targets.excludedNamespaces.list[1].name: Invalid value"}},
		{"RD-2 system namespaces may be listed", targets(func(t *v1beta1.ResourceDistributionTargets) { t.IncludedNamespaces = list("kube-system") }), nil},
		{"RD-2 a selector that cannot be read", targets(func(t *v1beta1.ResourceDistributionTargets) {
			t.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}
		}), []string{"spec.targets.namespaceSelector.matchExpressions[0].operator: Invalid value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, said(validateCreate(c.obj))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	broken := distribution("{")
	for _, c := range []struct {
		name      string
		old, next *v1beta1.ResourceDistribution
		want      []string
	}{
		{"RD-1 other data and targets", distribution(demoMap), distribution(strings.Replace(demoMap, `"v"`, `"w"`, 1), func(t *v1beta1.ResourceDistributionTargets) { t.AllNamespaces = true }), nil},
		{"RD-1 another name", distribution(demoMap), distribution(strings.Replace(demoMap, "demo", "other", 1)), []string{"spec.resource.metadata.name: Invalid value"}},
		{"RD-1 another kind", distribution(demoMap), distribution(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"demo"}}`), []string{"spec.resource.kind: Invalid value"}},
		{"RD-1 another version", distribution(demoMap), distribution(strings.Replace(demoMap, `"v1"`, `"v2"`, 1)), []string{"spec.resource.apiVersion: Unsupported value"}},
		{"a spec that makes no sense and stays", broken, broken.DeepCopy(), nil},
		{"a spec that made no sense is put right", broken, distribution(demoMap), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, said(validateUpdate(c.next, c.old))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
