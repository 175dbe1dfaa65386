// Package fields answers "which value does an object of any version have at a path?"
//
// Command lines read objects of several API versions, and of CRDs newer than the command line. So objects are not
// decoded into Go types but stay maps, and a path that an object lacks has the zero value. A path is written as in a
// manifest: "spec.updateStrategy.paused". Keys with dots, such as annotations, are read by the methods of package
// unstructured.
//
// All functions are safe for concurrent use and, except [Set], never modify their arguments.
package fields

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Object is the content of an object, as decoded from JSON.
type Object = map[string]any

// At returns the value at the first of the paths that the object has, and whether the object has such a path.
func At(o Object, paths ...string) (any, bool) {
	for _, path := range paths {
		if value, found, err := unstructured.NestedFieldNoCopy(o, strings.Split(path, ".")...); err == nil && found && value != nil {
			return value, true
		}
	}
	return nil, false
}

// String returns the text at the first path that the object has, or "".
func String(o Object, paths ...string) string {
	value, _ := At(o, paths...)
	text, _ := value.(string)
	return text
}

// Bool returns the value at the first path that the object has, or false.
func Bool(o Object, paths ...string) bool {
	value, _ := At(o, paths...)
	is, _ := value.(bool)
	return is
}

// Int returns the number at the first path that the object has, or 0.
func Int(o Object, paths ...string) int64 {
	value, _ := At(o, paths...)
	switch n := value.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	case json.Number:
		parsed, _ := n.Int64() // a number that does not fit counts as 0
		return parsed
	}
	return 0
}

// IntOr is [Int] with a default for an object without the paths.
func IntOr(o Object, missing int64, paths ...string) int64 {
	if _, found := At(o, paths...); !found {
		return missing
	}
	return Int(o, paths...)
}

// IntOrString returns a count or percentage, or nil for an object without the paths.
func IntOrString(o Object, paths ...string) *intstr.IntOrString {
	value, found := At(o, paths...)
	if !found {
		return nil
	}
	var out intstr.IntOrString
	if text, ok := value.(string); ok {
		out = intstr.FromString(text)
	} else {
		out = intstr.FromInt32(int32(Int(o, paths...)))
	}
	return &out
}

// List returns the objects in the list at a path; entries that are no objects are left out.
func List(o Object, paths ...string) (list []Object) {
	value, _ := At(o, paths...)
	entries, _ := value.([]any)
	for _, entry := range entries {
		if object, ok := entry.(Object); ok {
			list = append(list, object)
		}
	}
	return list
}

// Strings returns the texts in the list at a path.
func Strings(o Object, paths ...string) (list []string) {
	value, _ := At(o, paths...)
	entries, _ := value.([]any)
	for _, entry := range entries {
		if text, ok := entry.(string); ok {
			list = append(list, text)
		}
	}
	return list
}

// Set sets the value at a path and creates the missing parent maps. If a parent is not a map, the error names the
// parent.
func Set(o Object, value any, path string) error {
	if err := unstructured.SetNestedField(o, value, strings.Split(path, ".")...); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Condition is a condition in an object's status.
type Condition struct {
	Type, Status, Reason, Message string
	// Since is when the status last changed, as RFC 3339, or "".
	Since string
}

// Conditions returns the conditions in an object's status, in their order.
func Conditions(o Object) (list []Condition) {
	for _, c := range List(o, "status.conditions") {
		list = append(list, Condition{
			Type: String(c, "type"), Status: String(c, "status"), Reason: String(c, "reason"), Message: String(c, "message"),
			Since: String(c, "lastTransitionTime"),
		})
	}
	return list
}

// Selector returns the label selector at a path. A missing selector selects nothing, and an empty selector everything.
// The error names the path of an invalid selector.
func Selector(o Object, path string) (labels.Selector, error) {
	value, found := At(o, path)
	if !found {
		return labels.Nothing(), nil
	}
	content, isMap := value.(Object)
	if !isMap {
		return nil, fmt.Errorf("%s: %T is no label selector", path, value)
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &selector); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return parsed, nil
}
