// Package sidecarset is the controller of SidecarSets: the controller upgrades sidecars in running Pods. The package is
// an assembly of package sidecarcontrol. Package sidecars translates SidecarSets for package sidecarcontrol, and
// injects sidecars.
//
// The controller differs from OpenKruise 1.9 to the users' benefit. The controller upgrades native sidecars in place.
// The controller ends a hot upgrade even after the SidecarSet is paused or set to NotUpdate. A return to the image
// before a failed hot upgrade ends the upgrade. A Pod under upgrade by a second SidecarSet counts as unavailable.
package sidecarset
