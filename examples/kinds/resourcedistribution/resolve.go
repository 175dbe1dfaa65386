package resourcedistribution

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// Reasons why a chosen namespace gets no copy.
const (
	// NamespaceMissing means that a listed namespace does not exist.
	NamespaceMissing reason.Code = "NamespaceMissing"
	// NamespaceTerminating means that a listed namespace is being deleted.
	NamespaceTerminating reason.Code = "NamespaceTerminating"
)

// targets are the namespaces chosen by a ResourceDistribution. Lists are sorted, and no name is in both.
type targets struct {
	// Wanted are existing namespaces to have a copy.
	Wanted []string
	// Missing are the listed namespaces not found or being deleted. The reason's object is the namespace.
	Missing []reason.Reason
	// Untouched are existing namespaces being deleted or belonging to the system. Objects inside stay unchanged.
	Untouched sets.Set[string]
}

// within reduces listed targets to a single namespace, for a manager restricted to the namespace.
func within(namespace string, targets *v1beta1.ResourceDistributionTargets) *v1beta1.ResourceDistributionTargets {
	out, listed := targets.DeepCopy(), v1beta1.ResourceDistributionNamespace{Name: namespace}
	out.IncludedNamespaces.List = nil
	if slices.Contains(targets.IncludedNamespaces.List, listed) {
		out.IncludedNamespaces.List = []v1beta1.ResourceDistributionNamespace{listed}
	}
	return out
}

// resolve returns the namespaces chosen by targets. A listed namespace is chosen even if missing or terminating. All
// other namespaces are chosen only if not terminating. An excluded namespace is never chosen. kube-system and
// kube-public are chosen only if hasCopy reports a copy: OpenKruise 1.9.0 has made copies there. A nil hasCopy stands
// for no copies. An empty selector chooses no namespace. The error says why the selector cannot be read.
func resolve(spec *v1beta1.ResourceDistributionTargets, namespaces []*corev1.Namespace, hasCopy func(namespace string) bool) (targets, error) {
	selector, err := metav1.LabelSelectorAsSelector(&spec.NamespaceSelector)
	if err != nil {
		return targets{}, fmt.Errorf("spec.targets.namespaceSelector: %w", err)
	}
	if selector.Empty() {
		selector = labels.Nothing()
	}
	excluded, listed := names(spec.ExcludedNamespaces.List), names(spec.IncludedNamespaces.List)
	out, existing := targets{Untouched: sets.New[string]()}, sets.New[string]()
	for _, namespace := range namespaces {
		name := namespace.Name
		existing.Insert(name)
		isListed := listed.Has(name)
		ending := namespace.DeletionTimestamp != nil
		if ending || api.IsSystem(name) {
			out.Untouched.Insert(name)
		}
		chosen := isListed || spec.AllNamespaces || selector.Matches(labels.Set(namespace.Labels))
		switch {
		case excluded.Has(name), !chosen, api.IsSystem(name) && (hasCopy == nil || !hasCopy(name)):
		case !ending:
			out.Wanted = append(out.Wanted, name)
		case isListed:
			out.Missing = append(out.Missing, missing(NamespaceTerminating, name, "it is being deleted"))
		}
	}
	for name := range listed.Difference(existing).Difference(excluded) {
		if !api.IsSystem(name) {
			out.Missing = append(out.Missing, missing(NamespaceMissing, name, "it does not exist"))
		}
	}
	slices.Sort(out.Wanted)
	slices.SortFunc(out.Missing, func(a, b reason.Reason) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	return out, nil
}

func missing(code reason.Code, name, detail string) reason.Reason {
	return reason.Reason{
		Code: code, Object: reason.Object{Kind: "Namespace", Name: name}, Detail: detail,
		Remedy: "create it, or take it off spec.targets.includedNamespaces",
	}
}

func names(list []v1beta1.ResourceDistributionNamespace) sets.Set[string] {
	out := sets.New[string]()
	for i := range list {
		if list[i].Name != "" {
			out.Insert(list[i].Name)
		}
	}
	return out
}
