// Package sidecarset is the controller of SidecarSets, and what the Pod webhook injects for them. It is an assembly of package
// sidecarcontrol: [Setup] adds the controller, which upgrades sidecars in Pods that run, and [NewInjection] makes the step of the webhook.
//
// It differs from OpenKruise 1.9 where that is better for its users: native sidecars are upgraded in place; a hot upgrade that has begun is
// ended also when the SidecarSet is paused or set to NotUpdate; going back to the image that ran before a failed hot upgrade ends it; a Pod
// whose sidecars another SidecarSet upgrades at the moment counts as unavailable; which revision a Pod gets with policy Partial depends
// on the request alone; and sidecars of several SidecarSets have an order, that of the SidecarSets' names.
package sidecarset
