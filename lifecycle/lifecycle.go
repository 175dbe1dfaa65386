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
// Make a [Machine] of your [Keys] once with [New], and give it the hooks of each owner with [Machine.With]. [Machine.Next]
// takes a Pod and what its owner wants of it, and returns a [Transition]: Act says whether the Pod may be deleted or
// updated now, Why what it waits for. [Machine.Change] says what to write: the state's label and timestamp, and the
// hook's labels and finalizers where they come back. Send it in one write with the update, where there is one. Hold,
// ReleaseDelete and ReleaseUpdate say which holders of the readiness gate to add and to remove.
//
// # What decides
//
// Next looks at nothing but these facts:
//
//   - the Pod's state, which is its label;
//   - of each hook: whether it is configured, whether the Pod has any of its labels and finalizers (then the hook holds it) or
//     all of them (then the hook is complete), and how it is set;
//   - whether the Pod has a node;
//   - what is in [Want].
//
// A deletion goes first, then one that has begun, then an update, then what the state itself leads to:
//
//	state            intent        goes to
//	any              Delete        PreparingDelete while the deletion hook holds the Pod, then it is deleted
//	PreparingDelete  Cancel        PreparingNormal; where a hook took the Pod out of service, its deletion goes on
//	PreparingDelete  Update        the same
//	PreparingDelete  Keep          its deletion goes on
//	Updated          Update        PreparingUpdate, where the update hook is put back; Updating if there is none
//	Updating         Update        Updating: another update starts
//	any other        Update        PreparingUpdate while the update hook holds the Pod, then Updating
//	PreparingNormal  Keep, Cancel  Normal when the preNormal hook is complete or, if there is none, the Pod has a node
//	PreparingUpdate  Keep, Cancel  stays until it is Settled, then as from Updating
//	Updating         Keep, Cancel  stays until it is Complete, then Normal, or Updated until the update hook is complete
//	Updated          Keep, Cancel  Normal when the update hook is complete
//
// # A hook before updates only
//
// The update hook is asked twice: to release the Pod before an update, and to be complete again after it. If you only want
// to be asked before, to drain connections for example, set [Hook].BeforeOnly and remove the hook's labels and finalizers
// when the Pod may be updated. The machine puts them back in the write that returns the Pod from Updating to Normal,
// without passing through Updated, so that the next update is held again. A Pod that waits in Updated when the setting is
// switched on returns the same way. [Machine.Stamp] puts them on new Pods. Pods that were there before the hook do not
// have them and are updated once without being asked.
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
//   - The holder of the readiness gate for the update hook is released on entering Normal as well.
//   - A state nobody knows is treated as PreparingNormal.
//
// Without an update hook, a finished update goes from Updating to Normal in one write instead of through Updated.
//
// Everything here is pure and safe for concurrent use; Pods are never modified.
package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the value of a Pod's state label. The empty State means that there is no label.
type State string

// The states of a Pod. Their spelling is that of OpenKruise's label, so that either can take over the Pods of the other.
const (
	// PreparingNormal is the state of a Pod that does not count yet.
	PreparingNormal State = "PreparingNormal"
	// Normal is the state of a Pod in service.
	Normal State = "Normal"
	// PreparingUpdate is the state of a Pod that waits until the update hook no longer holds it.
	PreparingUpdate State = "PreparingUpdate"
	// Updating is the state of a Pod from the start of its in-place update until it is complete.
	Updating State = "Updating"
	// Updated is the state of a Pod that waits until the update hook is complete again.
	Updated State = "Updated"
	// PreparingDelete is the state of a Pod that waits until the deletion hook no longer holds it.
	PreparingDelete State = "PreparingDelete"
)

// Available reports whether a Pod in this state may count as available. Pods without a state may.
func (s State) Available() bool { return s == "" || s == Normal }

// Keys names the label and the annotation of the state. Both are required: see New.
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

// Kind names a hook that can take a Pod's readiness away.
type Kind string

// The kinds of hooks, as the fields of OpenKruise's API are called.
const (
	PreDelete     Kind = "preDelete"
	InPlaceUpdate Kind = "inPlaceUpdate"
	preNormal     Kind = "preNormal"
)

// hooked reports whether the Pod has at least one of the hook's labels, with its value, or finalizers. A nil or empty
// hook holds nothing.
func hooked(meta *metav1.ObjectMeta, hook *Hook) bool {
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

// allHooked reports whether the Pod has all of the hook's labels, with their values, and finalizers. A nil hook is
// never all-hooked, an empty one always is.
func allHooked(meta *metav1.ObjectMeta, hook *Hook) bool {
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
func (h Hooks) Initial(template *metav1.ObjectMeta) State {
	if h.PreNormal != nil && !allHooked(template, h.PreNormal) {
		return PreparingNormal
	}
	return Normal
}

// CancelDeletions returns how many Pods in PreparingDelete may return to PreparingNormal, because the workload was scaled up
// again: call Next with the intent Cancel for that many of those that nobody asked to delete. staying counts the
// active Pods that are neither in PreparingDelete nor asked to be deleted, waiting those in PreparingDelete that nobody
// asked to delete. It is 0 when MarkNotReady is set for deletion or update: who drains a Pod that was taken out of
// service relies on its end.
func (h Hooks) CancelDeletions(replicas, staying, waiting int) int {
	if h.PreDelete != nil && h.PreDelete.MarkNotReady || h.InPlaceUpdate != nil && h.InPlaceUpdate.MarkNotReady {
		return 0
	}
	return max(0, min(replicas-staying, waiting))
}

func (h Hooks) of(kind Kind) *Hook {
	switch kind {
	case PreDelete:
		return h.PreDelete
	case InPlaceUpdate:
		return h.InPlaceUpdate
	case preNormal:
		return h.PreNormal
	}
	return nil
}
