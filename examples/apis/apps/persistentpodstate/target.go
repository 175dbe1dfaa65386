// Package persistentpodstate answers "of which kinds can the target of a PersistentPodState be?"
package persistentpodstate

import (
	"encoding/json"
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

// BuiltIn is the StatefulSet of Kubernetes.
func BuiltIn() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "StatefulSet"} }

// Advanced is the StatefulSet of this group.
func Advanced() schema.GroupKind { return schema.GroupKind{Group: apps.Group, Kind: "StatefulSet"} }

// IsStatefulSet reports whether a kind is among the two kinds always allowed.
func IsStatefulSet(kind schema.GroupKind) bool { return kind == BuiltIn() || kind == Advanced() }

// most is how many kinds are read of a list: each costs a watch.
const most = 100

// ParseKinds reads the kinds listed by a configuration:
// {"workloads":[{"Group":"game.io","Version":"v1","Kind":"GameServerSet"}]}. An empty text lists none. Entries without
// a version or kind, and entries after the first hundred, cause an error, returned together with the valid entries.
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
