// Package sidecarset is the controller of SidecarSets, and the step of the Pod webhook that injects sidecars. The
// package is built on package sidecarcontrol: compile converts a SidecarSet to a set of sidecars, and content is what
// revisions record. The controller upgrades sidecars in running Pods.
//
// With the policy Partial, the request alone determines which revision a Pod gets. The sidecars of several SidecarSets
// are added in the order of the SidecarSets' names.
//
// Improvements on OpenKruise 1.9: The controller upgrades native sidecars in place. The controller finishes a hot
// upgrade even if the SidecarSet is paused or set to NotUpdate since. If a hot upgrade fails, a return to the previous
// image ends the upgrade. A Pod that another SidecarSet is upgrading counts as unavailable.
package sidecarset
