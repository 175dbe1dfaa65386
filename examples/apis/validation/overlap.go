package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ByKey returns the requirements of a selector by key.
func ByKey(selector labels.Selector) map[string]labels.Requirements {
	out := map[string]labels.Requirements{}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		out[r.Key()] = append(out[r.Key()], r)
	}
	return out
}

// CanBe reports whether a label could meet all requirements for a key, either with some value or by its absence.
func CanBe(all labels.Requirements) bool {
	exists, absent := false, false
	var in, notIn sets.Set[string] // a nil in allows any value
	for i := range all {
		values := sets.New(all[i].ValuesUnsorted()...)
		switch all[i].Operator() {
		case selection.NotIn, selection.NotEquals:
			notIn = notIn.Union(values)
		case selection.Exists:
			exists = true
		case selection.DoesNotExist:
			absent = true
		default: // In, or a value of matchLabels
			if exists = true; in != nil {
				values = values.Intersection(in)
			}
			in = values
		}
	}
	if absent {
		return !exists
	}
	return in == nil || in.Difference(notIn).Len() > 0 // nil in: some value is in no requirement
}

// AreDisjoint reports whether no set of labels can match both selectors.
func AreDisjoint(a, b labels.Selector) bool {
	of := ByKey(b)
	for key, requirements := range ByKey(a) {
		if !CanBe(slices.Concat(requirements, of[key])) {
			return true
		}
	}
	return false
}
