// Package sidecarset is the controller of SidecarSets, and the step of the Pod webhook that injects sidecars. Package
// sidecarcontrol contains the rules: [Compile] converts a SidecarSet to a sidecarcontrol.Set, and revisions record
// the fields of the type content. The controller upgrades sidecars in running Pods.
//
// With the injection policy Partial, some new Pods get the sidecars of an older revision; only the content of the
// creation request determines which. The sidecars of several SidecarSets are added in the order of the SidecarSets'
// names.
//
// Improvements on OpenKruise 1.9: The controller upgrades native sidecars (init containers that keep running) in
// place. The controller finishes a hot upgrade even if the SidecarSet was paused or set to NotUpdate after the
// upgrade had started. If a hot upgrade fails, a user can end the upgrade by setting the previous image again. A Pod
// that another SidecarSet is upgrading counts as unavailable.
package sidecarset
