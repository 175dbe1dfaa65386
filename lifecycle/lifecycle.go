// Package lifecycle answers "may I delete or update this Pod now, or does somebody have to finish something first?".
//
// A hook is a set of labels and finalizers on the Pod that somebody outside keeps there for as long as the Pod must not be
// touched: to drain connections, to save data, to take an address out of a load balancer. A Pod's state is a label of its
// own. There are three hooks: before deletion, before and after an in-place update, and before a new Pod counts as normal.
//
//	(unset), PreparingNormal --> Normal --> PreparingUpdate --> Updating --> Updated --> Normal
//	any state                           --> PreparingDelete --> deleted, or back to PreparingNormal
//
// # Use
//
// A [Machine] is made once per owner. [Machine.Facts] reads a Pod, the owner adds what it wants in [Facts], [Next] decides,
// and [Machine.Change] says what to write: the state's label and timestamp, and the hook's labels and finalizers where they
// have to come back. Transition.Act tells whether the Pod may be deleted or updated, in the same write where it is an
// update; Transition.Hold, ReleaseDelete and ReleaseUpdate which writers of the readiness gate to add and remove.
//
// # A hook before updates only
//
// The update hook is asked twice: to let go before an update, and to come back after it. Who only wants to be asked before, to
// drain connections for example, sets [Hook].BeforeOnly and removes the hook's labels and finalizers when the Pod may be
// updated. The machine puts them back in the write that returns the Pod from Updating to Normal, without passing through
// Updated, so that the next update is held again. A Pod that waits in Updated when the setting is switched on returns the
// same way. The first update is held where the Pod has the labels and finalizers, which its template gives to new Pods: those that
// were there before the hook are updated once without being asked.
//
// # Where this differs from OpenKruise 1.9
//
// The states and their names are the same, and so is where a Pod ends up. Ways that led nowhere have an exit:
//
//   - A Pod in Updated that needs a newer revision while no update hook is configured is updated directly.
//   - A Pod in PreparingDelete that should be updated instead returns to PreparingNormal, or where that is not allowed, its
//     deletion goes on. Neither is an error that stalls its owner.
//   - A Pod in PreparingUpdate whose update is no longer wanted returns as after a rollback, also when it is the
//     partition that was raised.
//   - The readiness writer of the update hook is released on entering Normal as well.
//   - A state nobody knows is treated as PreparingNormal.
//
// Without an update hook, a finished update goes from Updating to Normal in one write instead of through Updated.
//
// Everything here is pure and safe for concurrent use; Pods are never modified.
package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// State is the value of a Pod's state label. The empty State means that there is no label.
type State string

// The states of a Pod. Their spelling is part of the wire format (1.1 of the reference).
const (
	// PreparingNormal is the state of a Pod that does not count yet.
	PreparingNormal State = "PreparingNormal"
	// Normal is the state of a Pod in service.
	Normal State = "Normal"
	// PreparingUpdate is the state of a Pod that waits for the update hook to let go.
	PreparingUpdate State = "PreparingUpdate"
	// Updating is the state of a Pod from the start of its in-place update until it is complete.
	Updating State = "Updating"
	// Updated is the state of a Pod that waits for the update hook to come back.
	Updated State = "Updated"
	// PreparingDelete is the state of a Pod that waits for the deletion hook to let go.
	PreparingDelete State = "PreparingDelete"
)

// Available reports whether a Pod in this state may count as available. Pods without a state may.
func (s State) Available() bool { return s == "" || s == Normal }

// Keys names the label and the annotation of the state. Both are required.
//
// Where Pods are updated in place, name both among inplaceupdate.Keys.Reserved: a template must not set them.
type Keys struct {
	// State is the label that holds the state.
	State string
	// Timestamp is the annotation that holds when the state last changed, in RFC 3339 and UTC.
	Timestamp string
}

// Hook is what somebody else holds a Pod by.
type Hook struct {
	// Labels hold the Pod while it has them with exactly these values.
	Labels map[string]string
	// Finalizers hold the Pod while it has them.
	Finalizers []string
	// MarkNotReady takes the Pod's readiness away while it waits for the hook. It has no effect on PreNormal.
	MarkNotReady bool
	// BeforeOnly says that the hook is asked before an update and nobody restores it afterwards: the machine puts its labels
	// and finalizers back when the Pod returns to Normal, which is at once. It has an effect on InPlaceUpdate alone.
	BeforeOnly bool
}

// Hooks are an owner's hooks; nil ones are not configured.
type Hooks struct {
	PreDelete, InPlaceUpdate, PreNormal *Hook
}

// Kind names one of the hooks.
type Kind string

// The kinds of hooks, as the API's fields are called.
const (
	PreDelete     Kind = "preDelete"
	InPlaceUpdate Kind = "inPlaceUpdate"
	PreNormal     Kind = "preNormal"
)

// Hooked reports whether the Pod has at least one of the hook's labels, with its value, or finalizers. A nil or empty
// hook holds nothing.
func Hooked(meta *metav1.ObjectMeta, hook *Hook) bool {
	if hook == nil {
		return false
	}
	for key, value := range hook.Labels {
		if hasLabel(meta, key, value) {
			return true
		}
	}
	for _, finalizer := range hook.Finalizers {
		if hasFinalizer(meta, finalizer) {
			return true
		}
	}
	return false
}

// AllHooked reports whether the Pod has all of the hook's labels, with their values, and finalizers. A nil hook is
// never all-hooked, an empty one always is.
func AllHooked(meta *metav1.ObjectMeta, hook *Hook) bool {
	if hook == nil {
		return false
	}
	for key, value := range hook.Labels {
		if !hasLabel(meta, key, value) {
			return false
		}
	}
	for _, finalizer := range hook.Finalizers {
		if !hasFinalizer(meta, finalizer) {
			return false
		}
	}
	return true
}

func hasLabel(meta *metav1.ObjectMeta, key, value string) bool {
	have, ok := meta.Labels[key]
	return ok && have == value
}

func hasFinalizer(meta *metav1.ObjectMeta, finalizer string) bool {
	return slices.Contains(meta.Finalizers, finalizer)
}

// Initial returns the state of a Pod to be created from the template when nothing but a hook keeps it from being Normal
// (StatefulSet): PreparingNormal if there is a preNormal hook that the template does not satisfy by itself. Owners that
// prepare all their Pods create them in PreparingNormal (CloneSet), owners without states in none (DaemonSet).
func Initial(template *metav1.ObjectMeta, hooks Hooks) State {
	if hooks.PreNormal != nil && !AllHooked(template, hooks.PreNormal) {
		return PreparingNormal
	}
	return Normal
}

// CancelDeletions returns how many Pods in PreparingDelete may return to PreparingNormal, because the workload was scaled up
// again: call Next with the intent Cancel for that many of those that nobody asked to delete. pods counts the
// workload's active Pods, condemned those among them that are in PreparingDelete or asked to be deleted, and cancellable
// those in PreparingDelete that nobody asked to delete. It is 0 when MarkNotReady is set for deletion or update.
func CancelDeletions(replicas, pods, condemned, cancellable int, hooks Hooks) int {
	if !hooks.cancellable() {
		return 0
	}
	return max(0, min(replicas-pods+condemned, cancellable))
}

// cancellable is false once a Pod in PreparingDelete has been taken out of service: whoever drains it relies on its end.
func (h Hooks) cancellable() bool {
	return (h.PreDelete == nil || !h.PreDelete.MarkNotReady) && (h.InPlaceUpdate == nil || !h.InPlaceUpdate.MarkNotReady)
}

func (h Hooks) of(kind Kind) *Hook {
	switch kind {
	case PreDelete:
		return h.PreDelete
	case InPlaceUpdate:
		return h.InPlaceUpdate
	case PreNormal:
		return h.PreNormal
	}
	return nil
}

// StateOf returns the Pod's state under the given keys.
func StateOf(pod *corev1.Pod, keys Keys) State { return State(pod.Labels[keys.State]) }

// Machine reads and changes the states of an owner's Pods. It is a plain value.
type Machine struct {
	Keys  Keys
	Hooks Hooks
}

// Facts reads what the Pod contributes to a decision. The caller sets Intent, Settled, Complete and KeepUnset.
func (m Machine) Facts(pod *corev1.Pod) Facts {
	read := func(hook *Hook) HookFacts {
		f := HookFacts{Configured: hook != nil, Hooked: Hooked(&pod.ObjectMeta, hook), AllHooked: AllHooked(&pod.ObjectMeta, hook)}
		if hook != nil {
			f.Empty = len(hook.Labels)+len(hook.Finalizers) == 0
			f.MarkNotReady, f.BeforeOnly = hook.MarkNotReady, hook.BeforeOnly
		}
		return f
	}
	return Facts{
		State:     StateOf(pod, m.Keys),
		PreDelete: read(m.Hooks.PreDelete), InPlaceUpdate: read(m.Hooks.InPlaceUpdate), PreNormal: read(m.Hooks.PreNormal),
		Unscheduled: !podstate.IsScheduled(pod),
	}
}
