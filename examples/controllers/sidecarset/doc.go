// Package sidecarset is the controller of SidecarSets: it upgrades sidecars in Pods that run. It is an assembly of package sidecarcontrol;
// package sidecars says what a SidecarSet is to that, and injects it.
//
// It differs from OpenKruise 1.9 where that is better for its users: native sidecars are upgraded in place; a hot upgrade that has begun is
// ended also when the SidecarSet is paused or set to NotUpdate; going back to the image that ran before a failed hot upgrade ends it; and a
// Pod whose sidecars another SidecarSet upgrades at the moment counts as unavailable.
package sidecarset
