// Package lifecycle answers "may I delete or update this Pod now, or does somebody have to finish something first?".
//
// A hook is a set of labels and finalizers on the Pod. Somebody outside keeps the set there as long as the Pod must not
// be touched: to drain connections, to save data, to take an address out of a load balancer. A Pod's state is a label
// of its own. There are three hooks: before deletion, before and after an in-place update, and before a new Pod counts
// as normal.
//
//	(unset), PreparingNormal --> Normal --> PreparingUpdate --> Updating --> Updated --> Normal
//	any state                           --> PreparingDelete --> deleted, or back to PreparingNormal
//
// # Use
//
// Make a [Machine] of your [Keys] once with [New], and give it the hooks of each owner with [Machine.With].
// [Machine.Next] takes a Pod and its owner's wish, and returns a [Transition]: Act says whether the Pod may be deleted
// or updated now, and Why lists the reasons for waiting. [Machine.Change] returns the writes: the state's label and
// timestamp, and the hook's labels and finalizers if they come back. Send the change in a single write with an update,
// if any. Hold, ReleaseDelete and ReleaseUpdate name the holders of the readiness gate to add and to remove.
//
// # Facts behind a decision
//
// Next looks only at the following facts:
//
//   - the Pod's state, given by its label;
//   - for each hook: its presence in the configuration, its settings, and whether the Pod has any of its labels and
//     finalizers (the hook then holds the Pod) or all of them (the hook is then complete);
//   - whether the Pod has a node;
//   - the fields of [Want].
//
// A wanted deletion goes first, then a begun deletion, then an update, then the way given by the state:
//
//	state            intent        goes to
//	any              Delete        PreparingDelete while the deletion hook holds the Pod, then deleted
//	PreparingDelete  Cancel        PreparingNormal; where a hook took the Pod out of service, its deletion goes on
//	PreparingDelete  Update        the same
//	PreparingDelete  Keep          its deletion goes on
//	Updated          Update        PreparingUpdate, where the update hook is put back; Updating if there is none
//	Updating         Update        Updating: another update starts
//	any other        Update        PreparingUpdate while the update hook holds the Pod, then Updating
//	PreparingNormal  Keep, Cancel  Normal when the preNormal hook is complete or, if there is none, the Pod has a node
//	PreparingUpdate  Keep, Cancel  stays until Settled, then as from Updating
//	Updating         Keep, Cancel  stays until Complete, then Normal, or Updated until the update hook is complete
//	Updated          Keep, Cancel  Normal when the update hook is complete
//
// # A hook before updates only
//
// The update hook is asked twice: to release the Pod before an update, and to be complete again after the update. To be
// asked only before, to drain connections for example, set [Hook].BeforeOnly and remove the hook's labels and
// finalizers when the Pod may be updated. The machine puts them back in the write that returns the Pod from Updating to
// Normal, without passing through Updated, so the next update is held again. A Pod waiting in Updated when the setting
// is switched on returns the same way.
//
// # New Pods and old
//
// [Machine.Stamp] puts the labels and finalizers of the hooks before deletions and updates on new Pods, but for hooks
// with [Hook].Unstamped. Pods older than a hook do not have them, so their next update or deletion does not wait for
// the hook.
//
// # Differences from OpenKruise 1.9
//
// The states and their names are the same, and so is a Pod's final state. Dead ends have an exit:
//
//   - A Pod in Updated with need for a newer revision is updated directly if no update hook is configured.
//   - A Pod in PreparingDelete with a wish for an update returns to PreparingNormal, or, if the return is not allowed,
//     its deletion goes on. Neither is an error, so neither stalls the owner.
//   - A Pod in PreparingUpdate with a no longer wanted update returns as after a rollback, even after a raised
//     partition.
//   - The holder of the readiness gate for the update hook is released on entering Normal as well.
//   - A state nobody knows is treated as PreparingNormal.
//
// Without an update hook, a finished update goes from Updating to Normal in a single write instead of through Updated.
//
// All functions are pure and safe for concurrent use, and never modify Pods.
package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the value of a Pod's state label. The empty State stands for a missing label.
type State string

// The states of a Pod, spelled as in OpenKruise's label, so OpenKruise and the kit can take over each other's Pods.
const (
	// PreparingNormal is the state of a Pod not yet counted.
	PreparingNormal State = "PreparingNormal"
	// Normal is the state of a Pod in service.
	Normal State = "Normal"
	// PreparingUpdate is the state of a Pod waiting for its release by the update hook.
	PreparingUpdate State = "PreparingUpdate"
	// Updating is the state of a Pod from the start of its in-place update to the end.
	Updating State = "Updating"
	// Updated is the state of a Pod waiting for a complete update hook.
	Updated State = "Updated"
	// PreparingDelete is the state of a Pod waiting for its release by the deletion hook.
	PreparingDelete State = "PreparingDelete"
)

// Available reports whether a Pod in the state may count as available. Pods without a state may.
func (s State) Available() bool { return s == "" || s == Normal }

// Keys names the label and the annotation of the state. Both are required: see New.
//
// Where Pods are updated in place, put both into inplaceupdate.Keys.Reserved: a template must not set them.
type Keys struct {
	// State is the label with the state.
	State string
	// Timestamp is the annotation with the time of the last change of the state, in RFC 3339 and UTC.
	Timestamp string
}

// Hook is the means by which somebody else holds a Pod.
type Hook struct {
	// Labels hold the Pod while the Pod has any of them with exactly the given value.
	Labels map[string]string
	// Finalizers hold the Pod while the Pod has any of them.
	Finalizers []string
	// MarkNotReady takes the Pod's readiness away while the Pod waits for the hook. No effect on PreNormal.
	MarkNotReady bool
	// BeforeOnly says that the hook is asked before an update and nobody restores the hook afterwards: the machine puts
	// the hook's labels and finalizers back at the Pod's return to Normal, at once after the update. Effect on
	// InPlaceUpdate alone.
	BeforeOnly bool
	// Unstamped leaves the labels and finalizers of a PreDelete or InPlaceUpdate hook off new Pods, see Machine.Stamp:
	// templates, webhooks or users put them there, as in OpenKruise. A Pod without any of them is not held.
	Unstamped bool
}

// IsEmpty reports whether the hook has neither labels nor finalizers, and thus never holds a Pod. A nil hook is empty.
func (h *Hook) IsEmpty() bool { return h == nil || len(h.Labels)+len(h.Finalizers) == 0 }

// isStamped reports whether new Pods get the hook's labels and finalizers.
func (h *Hook) isStamped() bool { return h != nil && !h.Unstamped }

// Hooks are an owner's hooks; nil ones are not configured.
type Hooks struct {
	PreDelete, InPlaceUpdate, PreNormal *Hook
}

// HookName names a hook that can take a Pod's readiness away.
type HookName string

// The kinds of hooks, as the fields of OpenKruise's API are called.
const (
	PreDelete     HookName = "preDelete"
	InPlaceUpdate HookName = "inPlaceUpdate"
	preNormal     HookName = "preNormal"
)

// hooked reports whether the Pod has any of the hook's labels, with its value, or any of its finalizers. A nil or empty
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
// never all-hooked, an empty hook always.
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

// Initial returns the state of a Pod created from the template if only a hook can keep the Pod from being Normal
// (StatefulSet): PreparingNormal if the template does not satisfy the preNormal hook by itself. Owners that prepare all
// their Pods create them in PreparingNormal (CloneSet), owners without states in none (DaemonSet).
func (h Hooks) Initial(template *metav1.ObjectMeta) State {
	if h.PreNormal != nil && !allHooked(template, h.PreNormal) {
		return PreparingNormal
	}
	return Normal
}

// CancelDeletions returns the number of Pods in PreparingDelete that may return to PreparingNormal after a scale-up of
// the workload: call Next with the intent Cancel for as many Pods without a requested deletion. staying counts the
// active Pods neither in PreparingDelete nor with a requested deletion. waiting counts the Pods in PreparingDelete
// without a requested deletion. The result is 0 if MarkNotReady is set for deletion or update: somebody who drains a
// Pod taken out of service relies on its end.
func (h Hooks) CancelDeletions(replicas, staying, waiting int) int {
	if h.PreDelete != nil && h.PreDelete.MarkNotReady || h.InPlaceUpdate != nil && h.InPlaceUpdate.MarkNotReady {
		return 0
	}
	return max(0, min(replicas-staying, waiting))
}

func (h Hooks) of(kind HookName) *Hook {
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
