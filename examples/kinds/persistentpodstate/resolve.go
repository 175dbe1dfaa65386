package persistentpodstate

import (
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
)

// settings are the values of a PersistentPodState's spec, with all keys collected.
type settings struct {
	kind                  schema.GroupKind // kind and name of the target
	name                  string
	required              []string                        // in the order of the spec
	preferred             []v1beta1.PreferredTopologyTerm // with the weights that Pods get
	topology, annotations []string                        // the keys to record, sorted and without duplicates
	keepsAll              bool                            // whether all records are kept as long as the target exists
}

const (
	minWeight, maxWeight = 1, 100 // least and largest weight of a preference that the API server accepts in Pods
	// mostListed is the largest length of each list of keys, preferences or annotations in a spec. The lengths are
	// limited because every Pod's record contains a value for each element.
	mostListed = 50
)

func targetPath() *field.Path { return field.NewPath("spec", "targetRef") }

// resolve parses and validates the spec. Problems are values with which the controller cannot work; records are then
// not changed. Warnings are values that the controller can use, but that are probably a mistake. A weight above the
// maximum counts as the maximum.
func resolve(spec *v1beta1.PersistentPodStateSpec) (s *settings, problems, warnings judge.Faults) {
	read, path := &judge.Reading{}, field.NewPath("spec")
	s = &settings{
		name:     spec.TargetReference.Name,
		keepsAll: spec.PersistentPodStateRetentionPolicy == v1beta1.PersistentPodStateWhenDeleted,
	}
	ref := spec.TargetReference
	s.kind = read.Target(targetPath(), ref.APIVersion, ref.Kind, ref.Name)
	required := path.Child("requiredPersistentTopology")
	if term := spec.RequiredPersistentTopology; term != nil {
		s.required = term.Keys
		s.readKeys(read, term.Keys, required.Child("keys"))
	} else if len(spec.PreferredPersistentTopology) == 0 {
		read.Warn(field.Required(required, "or spec.preferredPersistentTopology: without both nothing is kept"))
	}
	s.readPreferred(read, spec.PreferredPersistentTopology, path.Child("preferredPersistentTopology"))
	listed := path.Child("persistentPodAnnotations")
	for _, annotation := range spec.PersistentPodAnnotations {
		s.annotations = append(s.annotations, annotation.Key)
	}
	for i, key := range limited(read, s.annotations, listed) {
		for _, problem := range validation.IsQualifiedName(strings.ToLower(key)) {
			read.Warn(field.Invalid(listed.Index(i).Child("key"), key, problem))
		}
	}
	s.topology = slices.Compact(slices.Sorted(slices.Values(s.topology)))
	s.annotations = slices.Compact(slices.Sorted(slices.Values(s.annotations)))
	policies := []v1beta1.PersistentPodStateRetentionPolicy{
		"", v1beta1.PersistentPodStateWhenScaled, v1beta1.PersistentPodStateWhenDeleted,
	}
	if policy := spec.PersistentPodStateRetentionPolicy; !slices.Contains(policies, policy) {
		read.Warn(field.NotSupported(path.Child("persistentPodStateRetentionPolicy"), policy, policies[1:]))
	}
	if left := judge.Undecodable(spec.Undecodable); left != nil {
		return s, left, nil // further checks would only report missing values
	}
	return s, read.Problems, read.Warnings
}

func (s *settings) readPreferred(read *judge.Reading, terms []v1beta1.PreferredTopologyTerm, path *field.Path) {
	limited(read, terms, path)
	for i := range terms {
		term, at := terms[i], path.Index(i)
		if term.Weight < minWeight || term.Weight > maxWeight {
			read.Warn(field.Invalid(at.Child("weight"), term.Weight, validation.InclusiveRangeError(minWeight, maxWeight)))
		}
		s.readKeys(read, term.Preference.Keys, at.Child("preference", "keys"))
		if term.Weight = min(term.Weight, maxWeight); term.Weight >= minWeight {
			s.preferred = append(s.preferred, term)
		}
	}
}

// readKeys parses keys of Node labels.
func (s *settings) readKeys(read *judge.Reading, keys []string, path *field.Path) {
	s.topology = append(s.topology, keys...)
	if len(keys) == 0 {
		read.Warn(field.Required(path, "keys of labels that Nodes have"))
	}
	for i, key := range limited(read, keys, path) {
		read.Warn(metav1validation.ValidateLabelName(key, path.Index(i))...)
	}
}

// limited returns a list to be validated, or nil with a warning if the list is too long.
func limited[T any](read *judge.Reading, list []T, path *field.Path) []T {
	if len(list) > mostListed {
		read.Warn(field.TooMany(path, len(list), mostListed))
		return nil
	}
	return list
}
