// Package persistentpodstate answers "of which kinds can the target of a PersistentPodState be?"
package persistentpodstate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TargetKind returns the kind of a target, without the version.
func TargetKind(ref v1beta1.PersistentPodStateTarget) (schema.GroupKind, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{}, fmt.Errorf("is no group and version: %w", err)
	}
	return schema.GroupKind{Group: gv.Group, Kind: ref.Kind}, nil
}

// BuiltIn returns the kind StatefulSet of Kubernetes.
func BuiltIn() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "StatefulSet"} }

// Advanced returns the kind StatefulSet of the API group apps.kruise.io.
func Advanced() schema.GroupKind { return schema.GroupKind{Group: apps.Group, Kind: "StatefulSet"} }

// IsStatefulSet reports whether a kind is among the two kinds always allowed: the results of BuiltIn and Advanced.
func IsStatefulSet(kind schema.GroupKind) bool { return kind == BuiltIn() || kind == Advanced() }

// ParseKinds parses the list of kinds in a configuration, in the same way as [apps.ParseListed].
func ParseKinds(text string) ([]schema.GroupVersionKind, error) {
	itself := func(kind schema.GroupVersionKind) schema.GroupVersionKind { return kind }
	return apps.ParseListed(apps.ConfigurationStatefulSetLikes, text, itself, IsStatefulSet)
}
