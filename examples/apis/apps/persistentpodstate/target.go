// Package persistentpodstate answers "does this PersistentPodState make sense?", and which kinds its target may have.
package persistentpodstate

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TargetKind returns the kind of a target. Its version does not matter.
func TargetKind(ref v1beta1.PersistentPodStateTarget) (schema.GroupKind, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{}, fmt.Errorf("is no group and version: %w", err)
	}
	return schema.GroupKind{Group: gv.Group, Kind: ref.Kind}, nil
}

// BuiltIn is the StatefulSet that comes with Kubernetes.
func BuiltIn() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "StatefulSet"} }

// Advanced is the StatefulSet of this group.
func Advanced() schema.GroupKind { return schema.GroupKind{Group: apps.Group, Kind: "StatefulSet"} }

// IsStatefulSet reports whether a kind is one of the two that are always allowed.
func IsStatefulSet(kind schema.GroupKind) bool { return kind == BuiltIn() || kind == Advanced() }

// most is how many kinds are read of a list: each costs a watch.
const most = 100

// ParseKinds reads the kinds that a configuration lists: {"workloads":[{"Group":"game.io","Version":"v1","Kind":"GameServerSet"}]}. An empty text
// lists none. An entry without a version or kind, and those after the first hundred, are an error, with which the others are returned.
func ParseKinds(text string) (kinds []schema.GroupVersionKind, err error) {
	if text == "" {
		return nil, nil
	}
	var read struct {
		Workloads []schema.GroupVersionKind `json:"workloads"`
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return nil, fmt.Errorf("%s is no list of kinds: %w", apps.ConfigurationStatefulSetLikes, err)
	}
	seen := map[schema.GroupKind]bool{}
	for i, kind := range read.Workloads {
		switch {
		case kind.Kind == "" || kind.Version == "":
			err = fmt.Errorf("%s: workloads[%d] needs a Version and a Kind", apps.ConfigurationStatefulSetLikes, i)
		case IsStatefulSet(kind.GroupKind()) || seen[kind.GroupKind()]:
		case len(kinds) == most:
			return kinds, fmt.Errorf("%s: only %d kinds are read", apps.ConfigurationStatefulSetLikes, most)
		default:
			seen[kind.GroupKind()] = true
			kinds = append(kinds, kind)
		}
	}
	return kinds, err
}
