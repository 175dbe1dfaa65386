// Package workloadspread answers "of which kinds can the target of a WorkloadSpread be, and where does a target say how
// many Pods it wants?"
package workloadspread

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// Target is a kind of workload whose Pods can be spread.
type Target struct {
	schema.GroupVersionKind

	// ReplicasPath is the path of the field with the number of wanted Pods. If empty, the scale subresource is read.
	ReplicasPath string `json:"replicasPath,omitempty"`
	// SubResources are kinds of objects between the workload and its Pods.
	SubResources []schema.GroupVersionKind `json:"subResources,omitempty"`
}

// BuiltIn returns the target of a kind that is always allowed.
func BuiltIn(kind schema.GroupKind) (Target, bool) {
	switch kind {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return Target{GroupVersionKind: kind.WithVersion("v1"), ReplicasPath: "spec.parallelism"}, true
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return Target{
			GroupVersionKind: kind.WithVersion("v1"), ReplicasPath: "spec.replicas",
			SubResources: []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "ReplicaSet"}},
		}, true
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return Target{GroupVersionKind: kind.WithVersion("v1"), ReplicasPath: "spec.replicas"}, true
	case schema.GroupKind{Group: apps.Group, Kind: "CloneSet"}, schema.GroupKind{Group: apps.Group, Kind: "StatefulSet"}:
		return Target{GroupVersionKind: kind.WithVersion("v1beta1"), ReplicasPath: "spec.replicas"}, true
	}
	return Target{}, false
}

// IsNumbered reports whether the Pods of a kind have ordinals, which determine their subsets.
func IsNumbered(kind schema.GroupKind) bool {
	return kind.Kind == "StatefulSet" && (kind.Group == "apps" || kind.Group == apps.Group)
}

// HasCosts reports whether the controller of a kind respects the deletion costs of Pods.
func HasCosts(kind schema.GroupKind) bool {
	return kind.Group == "apps" && (kind.Kind == "ReplicaSet" || kind.Kind == "Deployment") ||
		kind.Group == apps.Group && kind.Kind == "CloneSet"
}

// ParseTargets parses the kinds that a configuration lists, as [apps.ParseListed] does.
func ParseTargets(text string) ([]Target, error) {
	kindOf := func(t Target) schema.GroupVersionKind { return t.GroupVersionKind }
	return apps.ParseListed(apps.ConfigurationSpreadTargets, text, kindOf, func(kind schema.GroupKind) bool {
		_, ok := BuiltIn(kind)
		return ok
	})
}

// Steps splits the path of an integer in an object, such as spec.groups.1.replicas, at the dots. ok is false if a part
// is empty.
func Steps(path string) (steps []string, ok bool) {
	steps = strings.Split(path, ".")
	return steps, !slices.Contains(steps, "")
}
