package sidecarset

import (
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// isCanary reports whether an object replaces another SidecarSet, its base, for some Pods.
func isCanary(obj *v1beta1.SidecarSet) bool {
	return obj.Annotations[apps.AnnotationSidecarSetCanary] == "true" && obj.Annotations[apps.AnnotationSidecarSetBase] != ""
}

// standsInFor reports whether canary replaces base: each Pod gets the sidecars of only one of the two SidecarSets.
func standsInFor(canary, base *v1beta1.SidecarSet) bool {
	return isCanary(canary) && canary.Annotations[apps.AnnotationSidecarSetBase] == base.Name
}

func validateBase(obj *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, opts validateOptions) field.ErrorList {
	if !isCanary(obj) {
		return nil
	}
	path, name := field.NewPath("metadata", "annotations").Key(apps.AnnotationSidecarSetBase), obj.Annotations[apps.AnnotationSidecarSetBase]
	if name == obj.Name {
		return field.ErrorList{field.Invalid(path, name, "must be another SidecarSet")}
	}
	i := slices.IndexFunc(others, func(other *v1beta1.SidecarSet) bool { return other.Name == name })
	switch {
	case i < 0 && opts.othersUnknown:
		return nil
	case i < 0:
		return field.ErrorList{field.NotFound(path, name)}
	case isCanary(others[i]):
		return field.ErrorList{field.Invalid(path, name, "must not stand in for another SidecarSet itself")}
	}
	return nil
}

// taken contains the names that only one SidecarSet may use in a Pod, such as names of containers, with the fields of
// the SidecarSet that use the names.
type taken struct {
	names       map[string]place
	volumes     map[string]int
	annotations map[string]int // index of the patch that sets the annotation key
}

// place identifies a container of an object. The path alone is not enough, because two containers may have the same
// name.
type place struct {
	path *field.Path
	list string
	i    int
}

func takenBy(obj *v1beta1.SidecarSet, at indexing) taken {
	t := taken{names: map[string]place{}, volumes: map[string]int{}, annotations: map[string]int{}}
	eachSidecar(&obj.Spec, func(list string, i int, c *pub.SidecarContainer) {
		for _, name := range injectedNames(c) {
			t.names[name] = place{at(field.NewPath("spec", list), i, c.Name).Child("name"), list, i}
		}
	})
	for i := range obj.Spec.Volumes {
		t.volumes[obj.Spec.Volumes[i].Name] = i
	}
	for i := range obj.Spec.PatchPodMetadata {
		for key := range obj.Spec.PatchPodMetadata[i].Annotations {
			t.annotations[key] = i
		}
	}
	return t
}

// conflicts returns the conflicts between obj and other SidecarSets that can select the same Pods, because injection
// would refuse such Pods. Admission cannot detect a conflict between two objects created at the same moment. Whether
// two SidecarSets select common Pods is checked last, because this check is expensive. others are checked in order;
// the stored version of obj may be among others.
func conflicts(obj *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, at indexing) field.ErrorList {
	var errs field.ErrorList
	mine, own := takenBy(obj, at), selectorsOf(&obj.Spec)
	for _, other := range others {
		if other.Name == obj.Name || standsInFor(obj, other) || standsInFor(other, obj) {
			continue
		}
		if found := mine.conflicts(obj, other, at); len(found) > 0 && own.overlaps(&other.Spec) {
			errs = append(errs, found...)
		}
	}
	return errs
}

// conflicts returns the conflicts between obj and another SidecarSet. Each error names the other SidecarSet, which
// the author of obj may not know.
func (t taken) conflicts(obj, other *v1beta1.SidecarSet, at indexing) field.ErrorList {
	var errs field.ErrorList
	by := "; SidecarSet " + other.Name + " is for some of the same Pods"
	told := map[place]bool{}
	eachSidecar(&other.Spec, func(list string, _ int, c *pub.SidecarContainer) {
		for _, name := range injectedNames(c) {
			mine, clash := t.names[name]
			id := place{list: mine.list, i: mine.i}
			if clash && !told[id] {
				told[id] = true
				errs = append(errs, field.Invalid(mine.path, name, "is taken by "+list+"["+c.Name+"]"+by))
			}
		}
	})
	for j := range other.Spec.Volumes {
		volume := &other.Spec.Volumes[j]
		if i, both := t.volumes[volume.Name]; both && !apiequality.Semantic.DeepEqual(&obj.Spec.Volumes[i], volume) {
			errs = append(errs, field.Invalid(at(field.NewPath("spec", "volumes"), i, volume.Name), volume.Name, "is another volume there"+by))
		}
	}
	for j := range other.Spec.PatchPodMetadata {
		theirs := &other.Spec.PatchPodMetadata[j]
		for _, key := range slices.Sorted(maps.Keys(theirs.Annotations)) {
			i, both := t.annotations[key]
			if !both {
				continue
			}
			if ours := &obj.Spec.PatchPodMetadata[i]; overwrites(ours.PatchPolicy, theirs.PatchPolicy) {
				errs = append(errs, field.Invalid(at(field.NewPath("spec", "patchPodMetadata"), i, anyPatch).Child("annotations").Key(key), ours.PatchPolicy,
					"is set with "+string(theirs.PatchPolicy)+" there"+by))
			}
		}
	}
	return errs
}

// overwrites reports whether the result of two patches of the same annotation depends on their order.
func overwrites(a, b pub.SidecarSetPatchPolicy) bool {
	return a != pub.SidecarSetRetain && b != pub.SidecarSetRetain && (a == pub.SidecarSetOverwrite || b == pub.SidecarSetOverwrite)
}

// selectors are the compiled selectors of a SidecarSet, for many comparisons.
type selectors struct{ pods, namespaces terms }

// terms are what a selector requires of labels, by key. Nil allows all labels.
type terms map[string]*wanted

func selectorsOf(spec *v1beta1.SidecarSetSpec) selectors {
	c := selectors{pods: termsOf(spec.Selector)}
	if spec.NamespaceSelector != nil {
		c.namespaces = termsOf(spec.NamespaceSelector)
	}
	return c
}

// overlaps reports whether both SidecarSets can select the same Pod. An empty selector matches no Pod, and so overlaps
// with no selector.
func (c selectors) overlaps(other *v1beta1.SidecarSetSpec) bool {
	if len(c.pods) == 0 || isEmpty(other.Selector) || !c.pods.compatible(other.Selector) {
		return false
	}
	return c.namespaces == nil || other.NamespaceSelector == nil || c.namespaces.compatible(other.NamespaceSelector)
}

func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// wanted is what a selector requires of a label's value.
type wanted struct {
	exists, absent bool
	in             sets.Set[string] // nil allows any value
	notIn          sets.Set[string]
}

func termsOf(s *metav1.LabelSelector) terms {
	t := terms{}
	if s == nil {
		return t
	}
	of := func(key string) *wanted {
		if t[key] == nil {
			t[key] = &wanted{}
		}
		return t[key]
	}
	for key, value := range s.MatchLabels {
		of(key).among(sets.New(value))
	}
	for _, e := range s.MatchExpressions {
		switch w := of(e.Key); e.Operator {
		case metav1.LabelSelectorOpIn:
			w.among(sets.New(e.Values...))
		case metav1.LabelSelectorOpNotIn:
			w.notIn = w.notIn.Union(sets.New(e.Values...))
		case metav1.LabelSelectorOpExists:
			w.exists = true
		case metav1.LabelSelectorOpDoesNotExist:
			w.absent = true
		}
	}
	return t
}

// compatible reports whether a set of labels could match both selectors. Labels with different keys are independent of
// each other.
func (t terms) compatible(other *metav1.LabelSelector) bool {
	if len(other.MatchExpressions) == 0 { // only labels to match, the usual case
		for key, value := range other.MatchLabels {
			if mine := t[key]; mine != nil && (mine.absent || mine.in != nil && !mine.in.Has(value) || mine.notIn.Has(value)) {
				return false
			}
		}
		return t.possible()
	}
	theirs := termsOf(other)
	for key, w := range theirs {
		if mine := t[key]; mine != nil {
			w.exists, w.absent, w.notIn = w.exists || mine.exists, w.absent || mine.absent, w.notIn.Union(mine.notIn)
			if mine.in != nil {
				w.among(mine.in)
			}
		}
	}
	return theirs.possible() && t.possible()
}

func (t terms) possible() bool {
	for _, w := range t {
		if !w.possible() {
			return false
		}
	}
	return true
}

func (w *wanted) among(values sets.Set[string]) {
	w.exists = true
	if w.in == nil {
		w.in = values
	} else {
		w.in = w.in.Intersection(values)
	}
}

func (w *wanted) possible() bool {
	if w.absent {
		return !w.exists
	}
	return w.in == nil || w.in.Difference(w.notIn).Len() > 0
}
