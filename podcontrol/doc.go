// Package podcontrol answers "what does this one Pod need now?".
//
// It composes packages lifecycle, inplaceupdate and podreadiness. A [Control] is made once for a controller and knows the names
// that it writes on Pods; [Rules] are what one owner wants for its Pods. Each method takes a Pod and returns a [Step]: nothing,
// one patch, a deletion, or why neither can be.
//
//   - [Control.Update] takes a Pod to another revision: in place, with its hooks and its readiness gate, or by its deletion.
//   - [Control.Delete] deletes a Pod, or has it wait for its hook first; [Control.Cancel] takes that back.
//   - [Control.Settle] takes a Pod back that waits for an update which is not wanted any more.
//   - [Control.Next] does what needs no budget: the end of a grace period, the next batch of containers, the readiness gate
//     opened again, the states of the lifecycle.
//
// Update, Delete, Cancel and Settle are for the owner's pass, which has a budget. Next is for a loop of the Pods' own, which never
// waits for their owner, so that a Pod is out of service no longer when many are updated together.
//
// [Control.Read] reads what an owner needs to know of a Pod, and a [Reader] does that for all Pods of an owner, each once for as
// long as it does not change.
//
// Everything here is pure and safe for concurrent use; Pods are never modified. Package podcontrol/executor carries steps out.
package podcontrol
