// Package facts answers "at which field paths does a kind have the settings that commands change?"
//
// The paths differ between kinds and between versions of a kind. A command looks up a path by the group, version and
// kind of an object. The package knows kinds of Kubernetes, of OpenKruise and of Kruise Rollouts.
package facts

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// These are the API groups with kinds of OpenKruise and of Kruise Rollouts.
const (
	AppsGroup     = "apps.kruise.io"
	PolicyGroup   = "policy.kruise.io"
	RolloutsGroup = "rollouts.kruise.io"
)

// IsKruise reports whether a group has kinds of OpenKruise or of Kruise Rollouts.
func IsKruise(group string) bool {
	return group == AppsGroup || group == PolicyGroup || group == RolloutsGroup
}

// Pausable returns the path of the switch to pause objects of a kind, or "" for a kind without a switch.
func Pausable(gvk schema.GroupVersionKind) string {
	switch gvk.GroupKind() {
	case schema.GroupKind{Group: AppsGroup, Kind: "CloneSet"}:
		if gvk.Version == "v1alpha1" {
			return "spec.updateStrategy.paused"
		}
		return "spec.updateStrategy.rollingUpdate.paused"
	case schema.GroupKind{Group: AppsGroup, Kind: "StatefulSet"}, schema.GroupKind{Group: AppsGroup, Kind: "DaemonSet"}:
		return "spec.updateStrategy.rollingUpdate.paused"
	case schema.GroupKind{Group: AppsGroup, Kind: "SidecarSet"}:
		return "spec.updateStrategy.paused"
	case schema.GroupKind{Group: AppsGroup, Kind: "BroadcastJob"}, schema.GroupKind{Group: AppsGroup, Kind: "AdvancedCronJob"},
		schema.GroupKind{Group: AppsGroup, Kind: "EphemeralJob"}, schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return "spec.paused"
	case schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return "spec.suspend"
	case schema.GroupKind{Group: RolloutsGroup, Kind: "Rollout"}:
		return "spec.strategy.paused"
	}
	return ""
}

// Restartable reports whether a kind keeps Pods running, so that a restart of the Pods makes sense.
func Restartable(gk schema.GroupKind) bool {
	switch gk.Group {
	case "apps":
		return gk.Kind == "Deployment" || gk.Kind == "DaemonSet" || gk.Kind == "StatefulSet"
	case AppsGroup:
		return gk.Kind == "CloneSet" || gk.Kind == "StatefulSet" || gk.Kind == "DaemonSet" || gk.Kind == "UnitedDeployment"
	}
	return false
}

// Templates returns the paths of an object's Pod templates: one for most kinds, none for kinds without a template.
// For a UnitedDeployment, the paths are in the template of the subsets' workload.
func Templates(o fields.Object) (paths []string) {
	for _, path := range []string{
		"spec.template",
		"spec.template.cloneSetTemplate.spec.template",
		"spec.template.advancedStatefulSetTemplate.spec.template",
		"spec.template.statefulSetTemplate.spec.template",
		"spec.template.deploymentTemplate.spec.template",
		"spec.template.broadcastJobTemplate.spec.template",
		"spec.template.jobTemplate.spec.template",
	} {
		if _, found := fields.At(o, path+".spec.containers"); found {
			paths = append(paths, path)
		}
	}
	return paths
}
