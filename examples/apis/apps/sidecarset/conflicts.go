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

// isCanary reports whether an object stands in for another one.
func isCanary(obj *v1beta1.SidecarSet) bool {
	return obj.Annotations[apps.AnnotationSidecarSetCanary] == "true" && obj.Annotations[apps.AnnotationSidecarSetBase] != ""
}

// standsInFor reports whether Pods that get one do not get the other.
func standsInFor(canary, base *v1beta1.SidecarSet) bool {
	return isCanary(canary) && canary.Annotations[apps.AnnotationSidecarSetBase] == base.Name
}

func validateBase(obj *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, opts Options) field.ErrorList {
	if !isCanary(obj) {
		return nil
	}
	path, name := field.NewPath("metadata", "annotations").Key(apps.AnnotationSidecarSetBase), obj.Annotations[apps.AnnotationSidecarSetBase]
	if name == obj.Name {
		return field.ErrorList{field.Invalid(path, name, "must be another SidecarSet")}
	}
	i := slices.IndexFunc(others, func(other *v1beta1.SidecarSet) bool { return other.Name == name })
	switch {
	case i < 0 && opts.OthersUnknown:
		return nil
	case i < 0:
		return field.ErrorList{field.NotFound(path, name)}
	case isCanary(others[i]):
		return field.ErrorList{field.Invalid(path, name, "must not stand in for another SidecarSet itself")}
	}
	return nil
}

// taken is what an object wants to have for itself in a Pod, and where it says so.
type taken struct {
	names       map[string]place
	volumes     map[string]int
	annotations map[string]int // by key, the patch
}

// place is a container of an object. The path alone does not tell it from another one of its name.
type place struct {
	path *field.Path
	list string
	i    int
}

func takenBy(obj *v1beta1.SidecarSet, at indexing) taken {
	t := taken{names: map[string]place{}, volumes: map[string]int{}, annotations: map[string]int{}}
	sidecars(&obj.Spec, func(list string, i int, c *pub.SidecarContainer) {
		for _, name := range injectedNames(c) {
			t.names[name] = place{at(specPath().Child(list), i, c.Name).Child("name"), list, i}
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

// conflicts returns what an object and others want to have in the same Pods. Whether there can be such Pods is asked last: with few objects
// there is a reason to. The others are looked at in their order; obj itself, as it is stored, may be among them.
func conflicts(obj *v1beta1.SidecarSet, others []*v1beta1.SidecarSet, at indexing) field.ErrorList {
	var errs field.ErrorList
	mine := takenBy(obj, at)
	for _, other := range others {
		if other.Name == obj.Name || standsInFor(obj, other) || standsInFor(other, obj) {
			continue
		}
		if found := mine.conflicts(obj, other, at); len(found) > 0 && Overlap(&obj.Spec, &other.Spec) {
			errs = append(errs, found...)
		}
	}
	return errs
}

// conflicts names the other object, which may be one that whoever writes this one has never heard of.
func (t taken) conflicts(obj, other *v1beta1.SidecarSet, at indexing) field.ErrorList {
	var errs field.ErrorList
	by := "; SidecarSet " + other.Name + " is for some of the same Pods"
	told := map[place]bool{}
	sidecars(&other.Spec, func(list string, _ int, c *pub.SidecarContainer) {
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
			errs = append(errs, field.Invalid(at(specPath().Child("volumes"), i, volume.Name), volume.Name, "is another volume there"+by))
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
				errs = append(errs, field.Invalid(at(specPath().Child("patchPodMetadata"), i, anyPatch).Child("annotations").Key(key), ours.PatchPolicy,
					"is set with "+string(theirs.PatchPolicy)+" there"+by))
			}
		}
	}
	return errs
}

// overwrites reports whether the result of two patches of an annotation depends on their order.
func overwrites(a, b pub.SidecarSetPatchPolicy) bool {
	return a != pub.SidecarSetRetain && b != pub.SidecarSetRetain && (a == pub.SidecarSetOverwrite || b == pub.SidecarSetOverwrite)
}

// Overlap reports whether a Pod can be selected by both. Selectors that select nothing overlap with none.
func Overlap(a, b *v1beta1.SidecarSetSpec) bool {
	if isEmpty(a.Selector) || isEmpty(b.Selector) || !compatible(a.Selector, b.Selector) {
		return false
	}
	return a.NamespaceSelector == nil || b.NamespaceSelector == nil || compatible(a.NamespaceSelector, b.NamespaceSelector)
}

func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// wanted is what is asked of the value of one label.
type wanted struct {
	exists, absent bool
	in             sets.Set[string] // nil for any
	notIn          sets.Set[string]
}

// compatible reports whether some labels match both selectors. Labels of different keys do not depend on each other.
func compatible(a, b *metav1.LabelSelector) bool {
	keys := map[string]*wanted{}
	of := func(key string) *wanted {
		if keys[key] == nil {
			keys[key] = &wanted{notIn: sets.New[string]()}
		}
		return keys[key]
	}
	for _, s := range []*metav1.LabelSelector{a, b} {
		for key, value := range s.MatchLabels {
			of(key).among(value)
		}
		for _, e := range s.MatchExpressions {
			switch w := of(e.Key); e.Operator {
			case metav1.LabelSelectorOpIn:
				w.among(e.Values...)
			case metav1.LabelSelectorOpNotIn:
				w.notIn.Insert(e.Values...)
			case metav1.LabelSelectorOpExists:
				w.exists = true
			case metav1.LabelSelectorOpDoesNotExist:
				w.absent = true
			}
		}
	}
	for _, w := range keys {
		if !w.possible() {
			return false
		}
	}
	return true
}

func (w *wanted) among(values ...string) {
	w.exists = true
	if next := sets.New(values...); w.in == nil {
		w.in = next
	} else {
		w.in = w.in.Intersection(next)
	}
}

func (w *wanted) possible() bool {
	if w.absent {
		return !w.exists
	}
	return w.in == nil || w.in.Difference(w.notIn).Len() > 0
}
