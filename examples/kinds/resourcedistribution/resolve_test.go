package resourcedistribution

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// exists returns a namespace with the given labels. A name that begins with "-" is the name of a terminating
// namespace.
func exists(name string, labels ...string) *corev1.Namespace {
	out := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: strings.TrimPrefix(name, "-"), Labels: map[string]string{}}}
	if strings.HasPrefix(name, "-") {
		out.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		out.Labels[key] = value
	}
	return out
}

func list(namespaces ...string) (out v1beta1.ResourceDistributionTargetNamespaces) {
	for _, namespace := range namespaces {
		out.List = append(out.List, v1beta1.ResourceDistributionNamespace{Name: namespace})
	}
	return out
}

func selects(key, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// choice compiles the selector, and returns the chosen namespaces.
func choice(spec *v1beta1.ResourceDistributionTargets, namespaces []*corev1.Namespace, hasCopy func(string) bool) (targets, error) {
	read := &judge.Reading{}
	selector := selectorOf(read, &spec.NamespaceSelector)
	return choose(spec, selector, namespaces, hasCopy), read.Problems.Reasons().Err()
}

func TestResolve(t *testing.T) {
	there := []*corev1.Namespace{
		exists("b", "team=x"), exists("a"), exists("c", "team=x"), exists("kube-system", "team=x"), exists("kube-public"), exists("-going", "team=x"),
	}
	for _, c := range []struct {
		name            string
		targets         v1beta1.ResourceDistributionTargets
		wanted, missing []string
		err             bool
		copies          []string
	}{
		{"RD-2 list and selector without what is excluded", v1beta1.ResourceDistributionTargets{
			IncludedNamespaces: list("a", "b"), NamespaceSelector: selects("team", "x"), ExcludedNamespaces: list("c"),
		}, []string{"a", "b"}, nil, false, nil},
		{"RD-2 all", v1beta1.ResourceDistributionTargets{AllNamespaces: true}, []string{"a", "b", "c"}, nil, false, nil},
		{"RD-2 all, one excluded", v1beta1.ResourceDistributionTargets{AllNamespaces: true, ExcludedNamespaces: list("b")}, []string{"a", "c"}, nil, false, nil},
		{"RD-2 exclusion comes before the list", v1beta1.ResourceDistributionTargets{
			IncludedNamespaces: list("a", "b"), ExcludedNamespaces: list("a"),
		}, []string{"b"}, nil, false, nil},
		{"RD-2 the system's are excluded even when listed", v1beta1.ResourceDistributionTargets{IncludedNamespaces: list("kube-system", "kube-public", "a")}, []string{"a"}, nil, false, nil},
		{"RD-2 the system's keep the copies that are there", v1beta1.ResourceDistributionTargets{AllNamespaces: true}, []string{"a", "b", "c", "kube-system"}, nil, false, []string{"kube-system"}},
		{"RD-2 but not where they are excluded", v1beta1.ResourceDistributionTargets{
			AllNamespaces: true, ExcludedNamespaces: list("kube-system"),
		}, []string{"a", "b", "c"}, nil, false, []string{"kube-system"}},
		{"RD-2 an empty selector matches nothing", v1beta1.ResourceDistributionTargets{NamespaceSelector: metav1.LabelSelector{}}, nil, nil, false, nil},
		{"RD-2 listed twice and selected", v1beta1.ResourceDistributionTargets{IncludedNamespaces: list("b", "b"), NamespaceSelector: selects("team", "x")}, []string{"b", "c"}, nil, false, nil},
		{"RD-3 listed, not there or terminating", v1beta1.ResourceDistributionTargets{IncludedNamespaces: list("z", "going", "a", "y")}, []string{"a"}, []string{
			"NamespaceTerminating going", "NamespaceMissing y", "NamespaceMissing z",
		}, false, nil},
		{"RD-3 excluded ones are not missing", v1beta1.ResourceDistributionTargets{IncludedNamespaces: list("z"), ExcludedNamespaces: list("z")}, nil, nil, false, nil},
		{"RD-3 terminating ones that are selected do not count", v1beta1.ResourceDistributionTargets{NamespaceSelector: selects("team", "x")}, []string{"b", "c"}, nil, false, nil},
		{"an empty name chooses nothing", v1beta1.ResourceDistributionTargets{IncludedNamespaces: list("")}, nil, nil, false, nil},
		{"a selector that cannot be read", v1beta1.ResourceDistributionTargets{NamespaceSelector: metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}},
		}}, nil, nil, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := choice(&c.targets, there, func(name string) bool { return slices.Contains(c.copies, name) })
			if (err != nil) != c.err {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			var missing []string
			for _, m := range got.Missing {
				missing = append(missing, fmt.Sprint(m.Code, " ", m.Object.Name))
			}
			if diff := cmp.Diff([][]string{c.wanted, c.missing, {"going", "kube-public", "kube-system"}}, [][]string{got.Wanted, missing, sets.List(got.Untouched)}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzResolve: for any targets, excluded and system namespaces are never chosen, no namespace is chosen twice, and the
// order of the input does not matter.
func FuzzResolve(f *testing.F) {
	f.Add("a b", "c", "x", true, "a=x b= c=x kube-system=x -d=x")
	f.Add("a kube-public z", "z a", "", false, "b=y a=x")
	f.Add("", "", "x", false, "-a=x b=x")
	f.Fuzz(func(t *testing.T, included, excluded, team string, all bool, there string) {
		targets := &v1beta1.ResourceDistributionTargets{
			AllNamespaces: all, IncludedNamespaces: list(strings.Fields(included)...), ExcludedNamespaces: list(strings.Fields(excluded)...),
		}
		if team != "" {
			targets.NamespaceSelector = selects("team", team)
		}
		var namespaces []*corev1.Namespace
		seen := sets.New[string]()
		for text := range strings.FieldsSeq(there) {
			name, label, _ := strings.Cut(text, "=")
			if n := exists(name, "team="+label); n.Name != "" && !seen.Has(n.Name) {
				seen.Insert(n.Name)
				namespaces = append(namespaces, n)
			}
		}
		got, err := choice(targets, namespaces, nil)
		if err != nil {
			return
		}
		out := sets.New(strings.Fields(excluded)...).Insert("kube-system", "kube-public")
		chosen := slices.Clone(got.Wanted)
		for _, m := range got.Missing {
			chosen = append(chosen, m.Object.Name)
		}
		for _, name := range chosen {
			if out.Has(name) {
				t.Errorf("%s is chosen", name)
			}
		}
		if n := len(sets.New(chosen...)); n != len(chosen) {
			t.Errorf("%q has doubles", chosen)
		}
		for name := range strings.FieldsSeq(included) {
			if !out.Has(name) && !slices.Contains(chosen, name) {
				t.Errorf("%s is listed, and neither wanted nor missing", name)
			}
		}
		slices.Reverse(namespaces)
		again, err := choice(targets, namespaces, nil)
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Errorf("in another order: %v\n%s", err, diff)
		}
	})
}
