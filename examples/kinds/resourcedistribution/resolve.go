package resourcedistribution

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a selected namespace gets no copy.
const (
	// NamespaceMissing means that a listed namespace does not exist.
	NamespaceMissing reason.Code = "NamespaceMissing"
	// NamespaceTerminating means that a listed namespace is being deleted.
	NamespaceTerminating reason.Code = "NamespaceTerminating"
)

// targets are the namespaces that the targets of a ResourceDistribution select. The lists are sorted, and no name is in
// two lists.
type targets struct {
	// Wanted lists the existing namespaces that must have a copy.
	Wanted []string
	// Missing gives a reason for each listed namespace that does not exist or is being deleted. The object of each
	// reason is the namespace.
	Missing []reason.Reason
	// Untouched contains the existing namespaces that are being deleted or belong to the system. Objects in these
	// namespaces are not changed.
	Untouched sets.Set[string]
}

// within restricts targets to a single namespace, for a manager that is restricted to this namespace.
func within(namespace string, targets *v1beta1.ResourceDistributionTargets) *v1beta1.ResourceDistributionTargets {
	out, listed := targets.DeepCopy(), v1beta1.ResourceDistributionNamespace{Name: namespace}
	out.IncludedNamespaces.List = nil
	if slices.Contains(targets.IncludedNamespaces.List, listed) {
		out.IncludedNamespaces.List = []v1beta1.ResourceDistributionNamespace{listed}
	}
	return out
}

// settings are the values of a ResourceDistribution's spec, with the resource decoded and the selector compiled.
type settings struct {
	resource *api.Resource
	// selector selects namespaces. An empty selector selects no namespace.
	selector labels.Selector
}

// resolve parses and validates the spec. Problems are values with which the controller cannot work; the settings must
// then not be used. Warnings are values that the controller can use, but that are probably a mistake: a name that no
// namespace can have.
func resolve(spec *v1beta1.ResourceDistributionSpec) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, targets, path := &judge.Reading{}, &spec.Targets, field.NewPath("spec", "targets")
	resource, errs := api.Read(spec.Resource.Raw, api.ResourcePath())
	read.Refuse(errs...)
	included := names(targets.IncludedNamespaces.List)
	judgeNames(read, targets.IncludedNamespaces.List, path.Child("includedNamespaces", "list"), nil)
	judgeNames(read, targets.ExcludedNamespaces.List, path.Child("excludedNamespaces", "list"), included)
	s = &settings{resource: resource, selector: selectorOf(read, &targets.NamespaceSelector)}
	return s, read.Problems, read.Warnings
}

// selectorOf compiles the selector for namespaces.
func selectorOf(read *judge.Reading, selector *metav1.LabelSelector) labels.Selector {
	const path = "spec.targets.namespaceSelector"
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return labels.Nothing()
	}
	if errs := validation.LabelSelector(selector, field.NewPath(path)); len(errs) > 0 {
		read.Refuse(errs...)
		return labels.Nothing()
	}
	return read.Selector(path, selector)
}

// judgeNames validates the names in a list of namespaces. No name may also be in the list others.
func judgeNames(read *judge.Reading, list []v1beta1.ResourceDistributionNamespace, path *field.Path,
	others sets.Set[string],
) {
	for i := range list {
		at, name := path.Index(i).Child("name"), list[i].Name
		if name == "" {
			read.Warn(field.Required(at, "the name of a namespace"))
			continue
		}
		for _, problem := range apivalidation.ValidateNamespaceName(name, false) {
			read.Warn(field.Invalid(at, name, problem))
		}
		if others.Has(name) {
			read.Warn(field.Invalid(at, name, "is included, too: leave out one of both"))
		}
	}
}

// choose returns the namespaces that the targets select; selector is the compiled selector of the targets. A listed
// namespace is selected even if it does not exist or is being deleted. Other namespaces are selected only if they are
// not being deleted. An excluded namespace is never selected. kube-system and kube-public are selected only if hasCopy
// reports that the namespace has a copy: OpenKruise 1.9.0 has created copies in both namespaces. If hasCopy is nil, no
// namespace has a copy.
func choose(spec *v1beta1.ResourceDistributionTargets, selector labels.Selector, namespaces []*corev1.Namespace,
	hasCopy func(namespace string) bool,
) targets {
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
	return out
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
