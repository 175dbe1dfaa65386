package persistentpodstate

import (
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// Weights of preferences, as accepted by the API server in Pods.
const (
	MinWeight = 1
	MaxWeight = 100
)

// Lookups find the objects that an object has to agree with.
type Lookups struct {
	// Listed reports whether the configuration lists a kind beside the StatefulSets. Nil stands for an unknown
	// configuration: any kind passes.
	Listed func(schema.GroupKind) bool
	// Others are the PersistentPodStates of the namespace.
	Others []v1beta1.PersistentPodState
}

// ValidateCreate returns the problems of a new object.
func ValidateCreate(obj *v1beta1.PersistentPodState, l Lookups) field.ErrorList {
	return append(validateTarget(obj, l), validateTopology(&obj.Spec)...)
}

// ValidateUpdate returns the problems of an update. An unchanged spec is not judged: finalizers must be able to go.
// Unchanged parts are not judged either, because OpenKruise has accepted more.
func ValidateUpdate(obj, stored *v1beta1.PersistentPodState) field.ErrorList {
	if apiequality.Semantic.DeepEqual(obj.Spec, stored.Spec) {
		return nil
	}
	errs := validateTopology(&obj.Spec)
	was := map[string]bool{}
	for _, problem := range validateTopology(&stored.Spec) {
		was[problem.Error()] = true
	}
	errs = errs.Filter(func(err error) bool { return was[err.Error()] })
	if obj.Spec.TargetReference != stored.Spec.TargetReference {
		errs = append(errs, field.Invalid(targetPath(), shown(obj.Spec.TargetReference), "cannot change: the records are of the former one's Pods; make another PersistentPodState"))
	}
	return errs
}

func targetPath() *field.Path { return field.NewPath("spec", "targetRef") }

func shown(ref v1beta1.PersistentPodStateTarget) string {
	return fmt.Sprintf("%s %s of %s", ref.Kind, ref.Name, ref.APIVersion)
}

// validateTarget judges the reference, and its uniqueness.
func validateTarget(obj *v1beta1.PersistentPodState, l Lookups) (errs field.ErrorList) {
	ref, path := obj.Spec.TargetReference, targetPath()
	for _, part := range []struct{ name, value, what string }{
		{"apiVersion", ref.APIVersion, "group and version of the workload"}, {"kind", ref.Kind, "its kind"}, {"name", ref.Name, "its name"},
	} {
		if part.value == "" {
			errs = append(errs, field.Required(path.Child(part.name), part.what))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	kind, err := TargetKind(ref)
	if err != nil {
		return append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
	if !IsStatefulSet(kind) && l.Listed != nil && !l.Listed(kind) {
		errs = append(errs, field.Invalid(path, shown(ref), "must be a StatefulSet of apps or apps.kruise.io, or of a kind that the ConfigMap kruise-configuration lists"))
	}
	for _, problem := range apivalidation.NameIsDNSSubdomain(ref.Name, false) {
		errs = append(errs, field.Invalid(path.Child("name"), ref.Name, problem))
	}
	for i := range l.Others {
		other := &l.Others[i]
		otherKind, err := TargetKind(other.Spec.TargetReference)
		if err == nil && otherKind == kind && other.Spec.TargetReference.Name == ref.Name && other.Namespace == obj.Namespace && other.Name != obj.Name {
			errs = append(errs, field.Invalid(path, shown(ref), "has a PersistentPodState already: "+other.Name))
		}
	}
	return errs
}

// validateTopology judges the recorded keys.
func validateTopology(spec *v1beta1.PersistentPodStateSpec) (errs field.ErrorList) {
	path := field.NewPath("spec")
	required := path.Child("requiredPersistentTopology")
	if spec.RequiredPersistentTopology == nil && len(spec.PreferredPersistentTopology) == 0 {
		errs = append(errs, field.Required(required, "or spec.preferredPersistentTopology: without both nothing is kept"))
	}
	if term := spec.RequiredPersistentTopology; term != nil {
		errs = append(errs, labelKeys(term.Keys, required.Child("keys"))...)
	}
	if n := len(spec.PreferredPersistentTopology); n > mostListed {
		return append(errs, field.TooMany(path.Child("preferredPersistentTopology"), n, mostListed))
	}
	for i := range spec.PreferredPersistentTopology {
		term, at := &spec.PreferredPersistentTopology[i], path.Child("preferredPersistentTopology").Index(i)
		if term.Weight < MinWeight || term.Weight > MaxWeight {
			errs = append(errs, field.Invalid(at.Child("weight"), term.Weight, validation.InclusiveRangeError(MinWeight, MaxWeight)))
		}
		errs = append(errs, labelKeys(term.Preference.Keys, at.Child("preference", "keys"))...)
	}
	if n := len(spec.PersistentPodAnnotations); n > mostListed {
		return append(errs, field.TooMany(path.Child("persistentPodAnnotations"), n, mostListed))
	}
	for i := range spec.PersistentPodAnnotations {
		at, key := path.Child("persistentPodAnnotations").Index(i).Child("key"), spec.PersistentPodAnnotations[i].Key
		for _, problem := range validation.IsQualifiedName(strings.ToLower(key)) {
			errs = append(errs, field.Invalid(at, key, problem))
		}
	}
	switch policy := spec.PersistentPodStateRetentionPolicy; policy {
	case "", v1beta1.PersistentPodStateWhenScaled, v1beta1.PersistentPodStateWhenDeleted:
	default:
		errs = append(errs, field.NotSupported(path.Child("persistentPodStateRetentionPolicy"), policy,
			[]v1beta1.PersistentPodStateRetentionPolicy{v1beta1.PersistentPodStateWhenScaled, v1beta1.PersistentPodStateWhenDeleted}))
	}
	return errs
}

// mostListed is how many keys, preferences and annotations a spec may list: there is a record of each, of every Pod.
const mostListed = 50

func labelKeys(keys []string, path *field.Path) (errs field.ErrorList) {
	if len(keys) > mostListed {
		return field.ErrorList{field.TooMany(path, len(keys), mostListed)}
	}
	if len(keys) == 0 {
		errs = append(errs, field.Required(path, "keys of labels that Nodes have"))
	}
	for i, key := range keys {
		errs = append(errs, metav1validation.ValidateLabelName(key, path.Index(i))...)
	}
	return errs
}
