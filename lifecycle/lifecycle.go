// Package lifecycle answers "may I delete or update this Pod now, or does somebody have to finish something first?".
//
// A hook is a set of labels and finalizers on the Pod. A user or another controller keeps these on the Pod as long as
// the Pod must not be deleted or updated: for example to drain connections, to save data, to remove an address from a
// load balancer. A separate label of the Pod holds its state. There are three hooks: before deletion, before and
// after an in-place update, and before a new Pod counts as Normal.
//
//	(unset), PreparingNormal --> Normal --> PreparingUpdate --> Updating --> Updated --> Normal
//	any state                           --> PreparingDelete --> deleted, or back to PreparingNormal
//
// # Use
//
// Make a [Machine] from your [Keys] once with [New], and set each owner's hooks with [Machine.With]. [Machine.Next]
// takes a Pod and what its owner wants, and returns a [Transition]: Act says whether the Pod may be deleted or updated
// now, and Why lists the reasons for waiting. [Machine.Change] returns the changes to write: the state's label and
// timestamp, and the hook's labels and finalizers if the machine restores the hook. If the Pod is updated, write the
// change and the update in the same patch. Hold, ReleaseDelete and ReleaseUpdate name the holders of the readiness gate
// that must be added or removed.
//
// # Facts behind a decision
//
// Next uses only the following facts:
//
//   - the Pod's state, read from its label;
//   - for each hook: whether the hook is configured, its settings, and whether the Pod has any of the hook's labels
//     and finalizers (the hook then holds the Pod), and whether the Pod has all of the hook's labels and finalizers
//     (the hook is then complete);
//   - whether the Pod is bound to a node;
//   - the fields of [Want].
//
// Next takes the first possible action of this list: a deletion that the owner wants, a deletion that has begun, an
// update, the next state of the diagram:
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
// The update hook is used twice: a Pod waits until the hook is released before the update, and until the hook is
// complete again after the update. To wait only before the update, for example to drain connections, set
// [Hook].BeforeOnly, and let the hook's owner remove its labels and finalizers when the Pod may be updated. The machine
// restores the labels and finalizers in the patch that returns the Pod from Updating to Normal, without passing through
// Updated, so the hook also holds the Pod before the next update. If BeforeOnly is switched on while a Pod waits in
// Updated, the Pod returns to Normal in the same way.
//
// # New Pods and old
//
// [Machine.Stamp] puts the labels and finalizers of the hooks before deletions and updates on new Pods, except for
// hooks with [Hook].Unstamped. Pods created before the hook was configured do not have the hook's labels and
// finalizers, so their next update or deletion does not wait for the hook.
//
// # Differences from OpenKruise 1.9
//
// The states and their names are the same as OpenKruise's, and so is a Pod's final state. States that a Pod could not
// leave in OpenKruise have an exit:
//
//   - A Pod in Updated that needs a newer revision is updated directly if no update hook is configured.
//   - If an owner wants to update a Pod in PreparingDelete, the Pod returns to PreparingNormal, or, if this is not
//     allowed, the deletion of the Pod continues. In OpenKruise, an error blocks the owner's reconciles.
//   - If the update of a Pod in PreparingUpdate is no longer wanted, the Pod returns to Normal, whether because of a
//     rollback or of a raised partition.
//   - When a Pod enters Normal, the machine also removes the update hook's holder from the readiness gate.
//   - An unknown state is treated as PreparingNormal.
//
// If there is no update hook, a Pod whose update is complete moves from Updating to Normal in a single patch, without
// passing through Updated.
//
// All functions are pure and safe for concurrent use, and never modify Pods.
package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the value of a Pod's state label. The empty State means that the label is missing.
type State string

// These are the states of a Pod, spelled as in OpenKruise's label, so OpenKruise and the kit can take over each other's
// Pods.
const (
	// PreparingNormal is the state of a Pod that does not count as available yet.
	PreparingNormal State = "PreparingNormal"
	// Normal is the state of a Pod in service.
	Normal State = "Normal"
	// PreparingUpdate is the state of a Pod that waits until the update hook releases the Pod.
	PreparingUpdate State = "PreparingUpdate"
	// Updating is the state of a Pod from the start to the end of its in-place update.
	Updating State = "Updating"
	// Updated is the state of a Pod that waits after its update until the update hook is complete again.
	Updated State = "Updated"
	// PreparingDelete is the state of a Pod that waits until the deletion hook releases the Pod.
	PreparingDelete State = "PreparingDelete"
)

// Available reports whether a Pod in this state may count as available. Pods without a state may count as available.
func (s State) Available() bool { return s == "" || s == Normal }

// Keys are the names of the state's label and annotation. Both are required: see New.
//
// If Pods are updated in place, list both in inplaceupdate.Keys.Reserved: a template must not set them.
type Keys struct {
	// State is the name of the label with the state.
	State string
	// Timestamp is the name of the annotation with the time of the last change of the state, in RFC 3339 and UTC.
	Timestamp string
}

// Hook is a set of labels and finalizers with which a user or another controller holds a Pod.
type Hook struct {
	// Labels hold the Pod while the Pod has any of these labels with exactly the given value.
	Labels map[string]string
	// Finalizers hold the Pod while the Pod has any of these finalizers.
	Finalizers []string
	// MarkNotReady makes the Pod unready while the Pod waits for the hook. MarkNotReady has no effect on PreNormal.
	MarkNotReady bool
	// BeforeOnly says that the hook holds a Pod only before an update, and that nobody restores the hook afterwards:
	// the machine restores the hook's labels and finalizers when the Pod returns to Normal, directly after the update.
	// BeforeOnly affects only InPlaceUpdate.
	BeforeOnly bool
	// Unstamped keeps Machine.Stamp from adding the labels and finalizers of a PreDelete or InPlaceUpdate hook to new
	// Pods: templates, webhooks or users add these, as in OpenKruise. The hook does not hold a Pod that has none of its
	// labels and finalizers.
	Unstamped bool
}

// IsEmpty reports whether the hook has neither labels nor finalizers, and thus never holds a Pod. A nil hook is empty.
func (h *Hook) IsEmpty() bool { return h == nil || len(h.Labels)+len(h.Finalizers) == 0 }

// isStamped reports whether Stamp adds the hook's labels and finalizers to new Pods.
func (h *Hook) isStamped() bool { return h != nil && !h.Unstamped }

// Hooks are an owner's hooks; a nil hook is not configured.
type Hooks struct {
	PreDelete, InPlaceUpdate, PreNormal *Hook
}

// HookName names a hook that can make a Pod unready.
type HookName string

// These are the names of hooks, spelled like the fields of OpenKruise's API.
const (
	PreDelete     HookName = "preDelete"
	InPlaceUpdate HookName = "inPlaceUpdate"
	preNormal     HookName = "preNormal"
)

// hooked reports whether the Pod has any of the hook's labels, with its value, or any of its finalizers. A nil or empty
// hook never holds a Pod.
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

// allHooked reports whether the Pod has all of the hook's labels, with their values, and finalizers. The result is
// false for a nil hook, and true for an empty hook.
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

// Initial returns the state of a Pod created from the template, for owners whose Pods start as Normal unless a hook
// holds the Pod (StatefulSet): PreparingNormal if the template does not satisfy the preNormal hook by itself. Owners
// that prepare all their Pods create every Pod in PreparingNormal (CloneSet); owners that use no states create Pods
// without a state (DaemonSet).
func (h Hooks) Initial(template *metav1.ObjectMeta) State {
	if h.PreNormal != nil && !allHooked(template, h.PreNormal) {
		return PreparingNormal
	}
	return Normal
}

// CancelDeletions returns how many Pods in PreparingDelete may return to PreparingNormal after the workload was
// scaled up: call Next with the intent Cancel for this number of Pods whose deletion was not requested by a user.
// staying is the number of active Pods that are neither in PreparingDelete nor requested to be deleted. waiting is
// the number of Pods in PreparingDelete whose deletion was not requested. The result is 0 if a hook sets
// MarkNotReady: the Pods in PreparingDelete are out of service already, and their hooks' owners may be draining the
// Pods.
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
