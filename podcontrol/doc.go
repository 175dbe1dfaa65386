// Package podcontrol answers "what does a single Pod need now?".
//
// The package composes packages lifecycle, inplaceupdate and podreadiness. A [Control] is made once for a controller
// and knows the controller's names on Pods. [Rules] are an owner's wishes for its Pods. Each method takes a Pod and
// returns a [Step]: nothing, a patch, a deletion, or an obstacle.
//
//   - [Control.Update] takes a Pod to another revision: in place, with its hooks and its readiness gate, or by its
//     deletion.
//   - [Control.Delete] deletes a Pod, or has the Pod wait for its hook first. [Control.Cancel] takes the deletion back.
//   - [Control.Settle] takes a Pod back from waiting for an update no longer wanted.
//   - [Control.Next] takes the actions without need for a budget: the end of a grace period, the next batch of
//     containers, opening the readiness gate again, the states of the lifecycle.
//
// Update, Delete, Cancel and Settle are for the owner's pass, which has a budget. Next is for the Pods' own loop. The
// loop never waits for the owner, so many updates at once do not prolong a Pod's time out of service.
//
// [Control.Read] reads an owner's facts about a Pod. A [Reader] reads all Pods of an owner, each Pod once as long as
// the Pod does not change.
//
// All functions are pure and safe for concurrent use, and never modify Pods. Package podcontrol/executor carries steps
// out.
package podcontrol
