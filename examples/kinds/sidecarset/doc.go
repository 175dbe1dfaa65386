// Package sidecarset is the controller of SidecarSets, and the step of the Pod webhook that injects sidecars. The
// package is an assembly of package sidecarcontrol: compile returns the sidecars of a SidecarSet, and content is the
// content of revisions. The controller upgrades sidecars in running Pods.
//
// With policy Partial, a Pod's revision depends on the request alone. Sidecars of several SidecarSets come in the order
// of the SidecarSets' names.
//
// The controller differs from OpenKruise 1.9 to the users' benefit. The controller upgrades native sidecars in place.
// The controller ends a hot upgrade even after the SidecarSet is paused or set to NotUpdate. A return to the image
// before a failed hot upgrade ends the upgrade. A Pod under upgrade by a second SidecarSet counts as unavailable.
package sidecarset
