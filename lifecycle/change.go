package lifecycle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// HookHolds means that a Pod waits until somebody removes a label or finalizer of a hook.
	HookHolds reason.Code = "HookHolds"
	// HookMissing means that a Pod waits until somebody adds a label or finalizer of a hook.
	HookMissing reason.Code = "HookMissing"
	// NotScheduled means that a Pod is not normal yet because it has no node.
	NotScheduled reason.Code = "NotScheduled"
	// UpdateIncomplete means that a Pod is not normal yet because its in-place update is not complete.
	UpdateIncomplete reason.Code = "UpdateIncomplete"
)

// Change returns what to write for a transition: the label and timestamp of a state that changes, and the labels and
// finalizers of a hook that is put back. It is empty when nothing changes.
func (m Machine) Change(pod *corev1.Pod, t Transition, now metav1.Time) podpatch.Change {
	change := podpatch.Change{UID: pod.UID}
	if t.From != t.To {
		state, timestamp := string(t.To), now.UTC().Format(time.RFC3339)
		change.Labels = map[string]*string{m.Keys.State: &state}
		change.Annotations = map[string]*string{m.Keys.Timestamp: &timestamp}
	}
	hook := m.Hooks.InPlaceUpdate
	if !t.Rearm || hook == nil {
		return change
	}
	if change.Labels == nil {
		change.Labels = make(map[string]*string, len(hook.Labels))
	}
	for key, value := range hook.Labels {
		change.Labels[key] = &value
	}
	change.AddFinalizers = slices.Clone(hook.Finalizers)
	return change
}

// Stamp sets the state on a Pod that has not been created yet.
func (m Machine) Stamp(meta *metav1.ObjectMeta, state State, now metav1.Time) {
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Labels[m.Keys.State] = string(state)
	meta.Annotations[m.Keys.Timestamp] = now.UTC().Format(time.RFC3339)
}

// Why says what a Pod waits for: one reason for each label or finalizer that has to go or come, and nil when it does not
// wait. Call it with the Pod that the transition was decided on.
func (m Machine) Why(pod *corev1.Pod, t Transition) reason.List {
	why := reason.Reason{Object: reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
	switch t.Awaits {
	case PodScheduled:
		why.Code, why.Path, why.Remedy = NotScheduled, "spec.nodeName", "wait for the scheduler"
		return reason.List{why}
	case UpdateComplete:
		why.Code, why.Remedy = UpdateIncomplete, "wait for the node to report the new containers"
		return reason.List{why}
	case HookReleased:
		why.Code = HookHolds
		why.Remedy = "remove it when the Pod may be touched"
	case HookComplete:
		why.Code = HookMissing
		why.Remedy = "add it when the Pod is ready for service"
	default:
		return nil
	}
	hook := m.Hooks.of(t.Hook)
	if hook == nil {
		return nil
	}
	why.Detail = string(t.Hook) + " hook"
	var list reason.List
	// With a hook that is about to be put back, everything in it holds the Pod.
	holds := t.Awaits == HookReleased
	for _, key := range slices.Sorted(maps.Keys(hook.Labels)) {
		if t.Rearm || hasLabel(&pod.ObjectMeta, key, hook.Labels[key]) == holds {
			why.Path, why.New = "metadata.labels["+key+"]", hook.Labels[key]
			list = append(list, why)
		}
	}
	for _, finalizer := range hook.Finalizers {
		if t.Rearm || hasFinalizer(&pod.ObjectMeta, finalizer) == holds {
			why.Path, why.New = "metadata.finalizers", finalizer
			list = append(list, why)
		}
	}
	return list
}
