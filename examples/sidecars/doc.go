// Package sidecars translates SidecarSets for package sidecarcontrol. [Compile] returns the injected sidecars,
// [Content] is the content of revisions, and [NewInjection] makes the injecting step of the Pod webhook. The controller
// of SidecarSets upgrades injected sidecars.
//
// With policy Partial, a Pod's revision depends on the request alone. Sidecars of several SidecarSets come in the order
// of the SidecarSets' names.
package sidecars
