package lifecycle

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// HookHolds means that a Pod waits until somebody removes a label or finalizer of a hook.
	HookHolds reason.Code = "HookHolds"
	// HookMissing means that a Pod waits until somebody adds a label or finalizer of a hook.
	HookMissing reason.Code = "HookMissing"
	// NotScheduled means that a Pod cannot become Normal before the Pod is bound to a node.
	NotScheduled reason.Code = "NotScheduled"
	// UpdateIncomplete means that a Pod cannot become Normal before its in-place update is complete.
	UpdateIncomplete reason.Code = "UpdateIncomplete"
)

// why lists the reasons for waiting: one for each label or finalizer that somebody must remove or add; nil if the Pod
// does not wait.
func (m Machine) why(pod *corev1.Pod, d *decision) reason.List {
	if d.awaits == nothing {
		return nil
	}
	why := reason.Reason{Object: reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
	switch d.awaits {
	case scheduled:
		why.Code, why.Path, why.Remedy = NotScheduled, "spec.nodeName", "wait for the scheduler"
		return reason.List{why}
	case updateComplete:
		why.Code, why.Remedy = UpdateIncomplete, "wait for the node to report the new containers"
		return reason.List{why}
	case hookReleased:
		why.Code = HookHolds
		why.Remedy = "remove it when the Pod may be touched"
	default:
		why.Code = HookMissing
		why.Remedy = "add it when the Pod is ready for service"
	}
	hook := m.hooks.of(d.hook)
	why.Detail = string(d.hook) + " hook"
	var list reason.List
	// If the machine is about to restore a hook, every label and finalizer of the hook holds the Pod.
	holds := d.awaits == hookReleased
	for _, key := range slices.Sorted(maps.Keys(hook.Labels)) {
		if d.Rearm || hasLabel(&pod.ObjectMeta, key, hook.Labels[key]) == holds {
			why.Path, why.New = "metadata.labels["+key+"]", hook.Labels[key]
			list = append(list, why)
		}
	}
	for _, finalizer := range hook.Finalizers {
		if d.Rearm || hasFinalizer(&pod.ObjectMeta, finalizer) == holds {
			why.Path, why.New = "metadata.finalizers", finalizer
			list = append(list, why)
		}
	}
	return list
}
