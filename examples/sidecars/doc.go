// Package sidecars answers: what is a SidecarSet to package sidecarcontrol? [Compile] says what one injects, [Content] what its revisions
// keep, and [NewInjection] makes the step of the Pod webhook that injects it. The controller of SidecarSets upgrades what was injected.
//
// Which revision a Pod gets with policy Partial depends on the request alone, and sidecars of several SidecarSets have an order, that of the
// SidecarSets' names.
package sidecars
