package progress

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// numbers are the counts of Pods that determine the state of a rollout.
type numbers struct {
	desired, updated, updatedReady, ready int64
	// kept is the number of Pods that the partition keeps at the old revision.
	kept     int64
	revision string
	onDelete bool
}

// numbersOf returns the function that reads the numbers of a kind, or nil for a kind without rollouts.
func numbersOf(gk schema.GroupKind) func(fields.Object) (numbers, error) {
	if gk.Group != facts.AppsGroup {
		return nil
	}
	switch gk.Kind {
	case "CloneSet":
		return cloneSet
	case "StatefulSet":
		return statefulSet
	case "DaemonSet":
		return daemonSet
	case "UnitedDeployment":
		return unitedDeployment
	case "SidecarSet":
		return sidecarSet
	}
	return nil
}

func replicated(o fields.Object) numbers {
	return numbers{
		desired: fields.IntOr(o, 1, "spec.replicas"), updated: fields.Int(o, "status.updatedReplicas"),
		updatedReady: fields.Int(o, "status.updatedReadyReplicas"), ready: fields.Int(o, "status.readyReplicas"),
		revision: fields.String(o, "status.updateRevision"), onDelete: fields.String(o, "spec.updateStrategy.type") == "OnDelete",
	}
}

// kept resolves a partition to a number of Pods: percentages round up, but a percentage below 100% never keeps all
// Pods if there are several.
func kept(o fields.Object, total int64, paths ...string) (int64, error) {
	n, err := partition.Kept(paths[0], fields.IntOrString(o, paths...), ptr.To(int32(total)))
	return int64(n), err
}

// cloneSet reads both API versions. In v1alpha1 the partition is not below a field rollingUpdate.
func cloneSet(o fields.Object) (n numbers, err error) {
	n = replicated(o)
	n.kept, err = kept(o, n.desired, "spec.updateStrategy.rollingUpdate.partition", "spec.updateStrategy.partition")
	return n, err
}

// statefulSet uses the number of ready Pods if the controller does not report updatedReadyReplicas, as in OpenKruise
// 1.9.
func statefulSet(o fields.Object) (numbers, error) {
	n := replicated(o)
	n.kept = fields.Int(o, "spec.updateStrategy.rollingUpdate.partition")
	if _, reported := fields.At(o, "status.updatedReadyReplicas"); !reported {
		n.updatedReady = min(n.updated, n.ready)
	}
	return n, nil
}

// daemonSet counts Nodes. The API has no number of updated and available Pods, so daemonSet uses the number of all
// available Pods.
func daemonSet(o fields.Object) (n numbers, err error) {
	n = numbers{
		desired: fields.Int(o, "status.desiredNumberScheduled"), updated: fields.Int(o, "status.updatedNumberScheduled"),
		ready: fields.Int(o, "status.numberAvailable"), revision: fields.String(o, "status.updateRevision", "status.daemonSetHash"),
		onDelete: fields.String(o, "spec.updateStrategy.type") == "OnDelete",
	}
	n.updatedReady = min(n.updated, n.ready)
	n.kept, err = kept(o, n.desired, "spec.updateStrategy.rollingUpdate.partition")
	return n, err
}

func unitedDeployment(o fields.Object) (numbers, error) {
	n := replicated(o)
	n.onDelete = false
	n.revision = fields.String(o, "status.updatedRevision", "status.updateStatus.updatedRevision")
	value, _ := fields.At(o, "spec.updateStrategy.manualUpdate.partitions")
	partitions, _ := value.(fields.Object)
	for subset := range partitions {
		if strings.Contains(subset, ".") {
			return n, fmt.Errorf("spec.updateStrategy.manualUpdate.partitions: %q is no name of a subset", subset)
		}
		n.kept += fields.Int(partitions, subset)
	}
	return n, nil
}

// sidecarSet counts matched Pods. Matched Pods without the sidecars do not delay a rollout, and neither does a
// strategy that updates no Pods.
func sidecarSet(o fields.Object) (n numbers, err error) {
	n = numbers{
		desired: fields.Int(o, "status.matchedPods"), updated: fields.Int(o, "status.updatedPods"),
		updatedReady: fields.Int(o, "status.updatedReadyPods"), ready: fields.Int(o, "status.readyPods"),
		revision: fields.String(o, "status.latestRevision"),
	}
	if n.kept, err = kept(o, n.desired, "spec.updateStrategy.partition"); fields.String(o, "spec.updateStrategy.type") == "NotUpdate" {
		n.kept = n.desired
	}
	return n, err
}
