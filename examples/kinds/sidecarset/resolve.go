package sidecarset

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// settings are the values of an update strategy, with compiled selectors.
type settings struct {
	update   *pub.SidecarSetUpdateStrategy
	selector labels.Selector
	order    podorder.Update
	// rollout returns the rules for choosing the Pods to upgrade; nil if no new upgrade may be started.
	rollout func([]sidecarcontrol.Standing) sidecarcontrol.Rollout
}

const strategyPath = "spec.updateStrategy"

// resolve parses and validates the spec, with or without defaults. Problems are values with which no controller can
// work; running Pods are then not changed. Warnings are values that the controller can use, but that are probably a
// mistake. at returns the path with which errors name a list element.
func resolve(set *v1beta1.SidecarSet, at indexing) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(set.Spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, spec, path := &judge.Reading{}, &set.Spec, field.NewPath("spec")
	readSelector(read, spec.Selector, path.Child("selector"))
	if spec.NamespaceSelector != nil {
		readSelector(read, spec.NamespaceSelector, path.Child("namespaceSelector"))
	}
	readContainers(read, spec, at)
	s = readStrategy(read, &spec.UpdateStrategy)
	if pin := spec.InjectionStrategy.Revision; pin != nil {
		at := path.Child("injectionStrategy", "revision")
		if cmp.Or(ptr.Deref(pin.RevisionName, ""), ptr.Deref(pin.CustomVersion, "")) == "" {
			read.Warn(field.Required(at, "name a revisionName or a customVersion"))
		}
		oneOf(read, at.Child("policy"), pin.Policy, pub.InjectRevisionAlways, pub.InjectRevisionPartial)
	}
	readPatches(read, spec.PatchPodMetadata, path.Child("patchPodMetadata"), at)
	for _, msg := range utilvalidation.IsValidLabelValue(spec.CustomVersion) {
		read.Warn(field.Invalid(path.Child("customVersion"), spec.CustomVersion, msg))
	}
	if isCanary(set) && spec.UpdateStrategy.Type != pub.SidecarSetNotUpdate {
		read.Warn(field.Invalid(path.Child("updateStrategy", "type"), spec.UpdateStrategy.Type,
			"must be NotUpdate: the object stands in for SidecarSet "+set.Annotations[apps.AnnotationSidecarSetBase]))
	}
	return s, read.Problems, read.Warnings
}

// readSelector compiles a selector. A selector that is empty or has too many terms leads only to a warning.
func readSelector(read *judge.Reading, selector *metav1.LabelSelector, path *field.Path) labels.Selector {
	errs := validation.Selects(selector, path)
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil && len(errs) > 0 {
		read.Refuse(errs...)
		return labels.Nothing()
	}
	read.Warn(errs...)
	return read.Selector(path.String(), selector)
}

// readStrategy validates even the fields that NotUpdate does not use, because these fields determine the revision of
// new Pods. With NotUpdate, fields that otherwise exclude each other may be set together.
func readStrategy(read *judge.Reading, update *pub.SidecarSetUpdateStrategy) *settings {
	s, path := &settings{update: update, selector: labels.Everything()}, field.NewPath(strategyPath)
	oneOf(read, path.Child("type"), update.Type, pub.SidecarSetNotUpdate, pub.SidecarSetRollingUpdate)
	readCount(read, path.Child("partition"), update.Partition)
	readCount(read, path.Child("maxUnavailable"), update.MaxUnavailable)
	if update.Selector != nil {
		s.selector = readSelector(read, update.Selector, path.Child("selector"))
		p := update.Partition
		if update.Type != pub.SidecarSetNotUpdate && p != nil && (p.Type == intstr.String || p.IntVal != 0) {
			read.Warn(field.Forbidden(path.Child("selector"), "excludes a partition; set that to 0"))
		}
	}
	s.order.Priority, s.order.Scatter = read.Order(strategyPath, update.PriorityStrategy, update.ScatterStrategy)
	if update.Type != pub.SidecarSetNotUpdate && !update.Paused {
		s.rollout = s.of
	}
	return s
}

// readCount validates an integer or a percentage. A percentage with decimals leads to a warning, because OpenKruise
// cannot parse decimals.
func readCount(read *judge.Reading, path *field.Path, value *intstr.IntOrString) {
	before := len(read.Problems)
	// The number of Pods is not known here. If a value is invalid for one Pod, the value is invalid for any number of
	// Pods.
	read.Count(path.String(), value, 1, partition.Up)
	if len(read.Problems) == before && value != nil && value.Type == intstr.String &&
		len(utilvalidation.IsValidPercent(value.StrVal)) > 0 {
		read.Warn(field.Invalid(path, value.StrVal,
			`has decimals; use an integer of at least 0, or a whole percentage such as "30%"`))
	}
}

// patchName returns a text that identifies a patch of annotations within a SidecarSet.
func patchName(patch *pub.SidecarSetPatchPodMetadata) string {
	return strings.Join(slices.Sorted(maps.Keys(patch.Annotations)), ",")
}

// roomForPatches is the largest total size, in bytes, of the annotations that a SidecarSet adds: half of the API
// server's limit for a Pod, because Pods have further annotations.
const roomForPatches = apivalidation.TotalAnnotationSizeLimitB / 2

func readPatches(read *judge.Reading, patches []pub.SidecarSetPatchPodMetadata, path *field.Path, at indexing) {
	seen, size := map[string]bool{}, 0
	for i := range patches {
		patch := &patches[i]
		where := at(path, i, patchName(patch))
		if policy := where.Child("patchPolicy"); patch.PatchPolicy == "" {
			oneOf(read, policy, patch.PatchPolicy, patchPolicies()...)
		} else {
			judge.OneOf(read, policy.String(), patch.PatchPolicy, patchPolicies()...)
		}
		if len(patch.Annotations) == 0 {
			read.Warn(field.Required(where.Child("annotations"), "add at least one annotation"))
		}
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			for _, msg := range utilvalidation.IsQualifiedName(strings.ToLower(key)) {
				read.Warn(field.Invalid(where.Child("annotations"), key, msg))
			}
			if seen[key] {
				read.Warn(field.Duplicate(where.Child("annotations").Key(key), key))
			}
			seen[key] = true
			size += len(key) + len(patch.Annotations[key])
		}
	}
	if size > roomForPatches {
		read.Warn(field.TooLong(path, field.OmitValueType{}, roomForPatches))
	}
}

func patchPolicies() []pub.SidecarSetPatchPolicy {
	return []pub.SidecarSetPatchPolicy{pub.SidecarSetRetain, pub.SidecarSetOverwrite, pub.SidecarSetMergePatchJSON}
}

func (s *settings) maxUnavailable() *intstr.IntOrString {
	return cmp.Or(s.update.MaxUnavailable, new(intstr.FromInt32(api.DefaultMaxUnavailable)))
}

// of returns the rollout's rules for the given Pods.
func (s *settings) of(pods []sidecarcontrol.Standing) sidecarcontrol.Rollout {
	read := &judge.Reading{} // resolve has already reported invalid values
	order := s.order
	if terms, found := anyValue(s.update.ScatterStrategy, pods); found {
		_, order.Scatter = read.Order(strategyPath, nil, terms)
	}
	return sidecarcontrol.Rollout{
		Selector: s.selector, Order: order,
		Partition:     read.Kept(strategyPath+".partition", s.update.Partition, len(pods)),
		PartitionPath: strategyPath + ".partition", MaxUnavailablePath: strategyPath + ".maxUnavailable",
		MaxUnavailable: read.Count(strategyPath+".maxUnavailable", s.maxUnavailable(), len(pods), partition.Up),
	}
}

// anyValue expands each term with the value "*": the term is replaced by a term for each value of the label among the
// Pods. found is true if there is such a term.
func anyValue(terms []pub.ScatterTerm, pods []sidecarcontrol.Standing) (out []pub.ScatterTerm, found bool) {
	add := func(term pub.ScatterTerm) {
		if !slices.Contains(out, term) {
			out = append(out, term)
		}
	}
	for _, term := range terms {
		if term.Value != "*" { // "*" is not a valid value of a label
			add(term)
			continue
		}
		found = true
		values := sets.Set[string]{}
		for i := range pods {
			if value, ok := pods[i].Pod.Labels[term.Key]; ok {
				values.Insert(value)
			}
		}
		for _, value := range sets.List(values) {
			add(pub.ScatterTerm{Key: term.Key, Value: value})
		}
	}
	return out, found
}
