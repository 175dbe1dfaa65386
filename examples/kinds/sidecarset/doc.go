// Package sidecarset is the controller of SidecarSets, and the step of the Pod webhook that injects sidecars. The
// package is built on package sidecarcontrol: [Compile] converts a SidecarSet to a set of sidecars, and the type
// content is what revisions record. The controller upgrades sidecars in running Pods.
//
// With the policy Partial, only the content of the creation request determines which revision a Pod gets. The
// sidecars of several SidecarSets are added in the order of the SidecarSets' names.
//
// Improvements on OpenKruise 1.9: The controller upgrades native sidecars (init containers that keep running) in place.
// The controller finishes a hot upgrade even if the SidecarSet was paused or set to NotUpdate after the upgrade had
// started. If a hot upgrade fails, setting the previous image again ends the upgrade. A Pod that another SidecarSet is
// upgrading counts as unavailable.
package sidecarset
