// Package sidecarcontrol answers "which sidecars does this Pod get, and may it get newer ones now?".
//
// A set of sidecars is defined once and injected into Pods when they are created, whoever creates them. Later its images are changed in
// the Pods that run, without a restart of anything else in them.
//
//   - [Index.Match] finds the sets of a Pod among thousands.
//   - [Control.Inject] puts their sidecars into a Pod: containers, native sidecars, init containers, what they share with the Pod's own
//     containers, volumes, pull secrets and annotations. A Pod gets all of them or is refused.
//   - [Control.Read] says how a Pod stands with a set: whether it has the newest sidecars, why it cannot be upgraded in place, what an upgrade
//     waits for.
//   - [Choose] says which Pods are upgraded next, and what limits it.
//   - [Control.Upgrade] and [Control.Flip] return the changes, each one patch of the Pod.
//
// All of this is pure. Package podwebhook below answers the API server, and package upgrader carries upgrades out. A whole operator for a
// sidecar of its own, webhook included, has 200 lines: examples/embed/sidecars.
//
// # What can be upgraded in place
//
// Images. The API server lets nothing else of a container change while its Pod lives. A Pod whose sidecars differ in anything else is left
// alone until somebody recreates it, and says so in a condition. Native sidecars (init containers with restartPolicy Always) are upgraded
// like other containers; init containers that have ended are not.
//
// An upgrade is done when the node reports the new image, as package inplaceupdate finds out: the record of what each container ran
// before is kept in an annotation, for each set.
//
// # Hot upgrades
//
// A sidecar that must not be gone for a moment is injected twice, as <name>-1 and <name>-2. One works, and the other one has an empty image.
//
//	                 <name>-1   <name>-2   works
//	injected         v1         empty      1
//	Upgrade to v2    v1         v2         2       both run; the new one takes over what the old one has
//	Flip             empty      v2         2       once the new one is ready
//	Upgrade to v3    v3         v2         1
//	Flip             v3         empty      1
//
// Annotations tell each of the two its version and that of its twin; a container reads them through env variables when it starts. An
// upgrade to a bad image stays in its second row: the old container works on. A better image goes to the failing container; the image
// that still works ends the upgrade.
//
// In an upgrade one of the two is ready at any time. The Pod is not: a Pod's condition Ready is of all containers, so that one with a
// readiness probe takes the Pod out of Services twice in each upgrade, while the new container starts and while the empty one does.
//
// # Wire format
//
// What is kept on Pods is JSON in annotations whose names come from [Keys]. It is OpenKruise's, so each takes over what the other began.
package sidecarcontrol
