// Package podcontrol answers "what does a single Pod need now?".
//
// The package composes packages lifecycle, inplaceupdate and podreadiness. A [Control] is made once for a controller
// and knows the names of the labels, annotations and conditions that the controller uses on Pods. [Rules] are the
// settings for Pods in an owner's spec: hooks and update strategy. Each method below takes a Pod and returns a
// [Step]: nothing to do, a patch, a deletion, or a reason why the action is impossible.
//
//   - [Control.Update] takes a Pod to another revision: by an in-place update, with its hooks and its readiness gate,
//     or by deletion.
//   - [Control.Delete] deletes a Pod, or marks the Pod to wait for its hook first. [Control.Cancel] cancels such a
//     deletion.
//   - [Control.Settle] cancels an update that is no longer wanted, if the Pod still waits for its hook.
//   - [Control.Next] takes the actions that need no budget: the end of a grace period, the next batch of containers,
//     opening the readiness gate again, and changes of the lifecycle state.
//
// Update, Delete, Cancel and Settle are for the reconcile of the owner, which has a budget. Next is for the
// controller's second loop, which reconciles single Pods. This loop never waits for the owner, so many concurrent
// updates do not prolong a Pod's time out of service.
//
// [Control.Read] derives from a Pod the facts that the owner's decision needs. A [Reader] derives the facts for all
// Pods of an owner, and reads a Pod again only if the Pod has changed.
//
// All functions are pure and safe for concurrent use, and never modify Pods. Package podcontrol/executor carries out
// the steps.
package podcontrol
