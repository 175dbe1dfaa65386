// Package sidecarcontrol answers "which sidecars does a Pod get, and may the Pod get newer sidecars now?".
//
// A set of sidecars is defined once and injected into Pods at their creation, by any creator. Later upgrades change the
// set's images in running Pods, without a restart of any other container.
//
//   - [Index.Match] finds the sets of a Pod among thousands.
//   - [Control.Inject] puts the sets' sidecars into a Pod: containers, native sidecars, init containers, shares of the
//     Pod's own containers, volumes, pull secrets and annotations. A Pod gets all sidecars or is refused.
//   - [Control.Read] returns a Pod's standing with a set: whether the Pod has the newest sidecars, why an upgrade in
//     place is impossible, and why an upgrade waits.
//   - [Choose] names the next Pods to upgrade, and the limits.
//   - [Control.Upgrade] and [Control.Flip] return the changes, each a single patch of the Pod.
//
// All functions are pure. Package podwebhook below answers the API server, and package upgrader carries upgrades out. A
// whole operator for its own sidecar, webhook included, has 200 lines: examples/embed/sidecars.
//
// # What can be upgraded in place
//
// Images can be upgraded. The API server lets no other field of a container change while the Pod lives. If the sidecars
// differ in another field, the Pod is left alone until somebody recreates the Pod, and a condition of the Pod says so.
// Native sidecars (init containers with restartPolicy Always) are upgraded like ordinary containers. Ended init
// containers are not upgraded.
//
// An upgrade is done when the node reports the new image, judged by package inplaceupdate. An annotation keeps, for
// each set, the record of each container's earlier image.
//
// # Hot upgrades
//
// A sidecar without any allowed gap is injected twice, as <name>-1 and <name>-2. The working twin runs the sidecar, and
// the idle twin runs an empty image.
//
//	                 <name>-1   <name>-2   works
//	injected         v1         empty      1
//	Upgrade to v2    v1         v2         2       both run; the new twin takes over from the old twin
//	Flip             empty      v2         2       once the new twin is ready
//	Upgrade to v3    v3         v2         1
//	Flip             v3         empty      1
//
// Annotations tell each container its version and its twin's version. A container reads the annotations through env
// variables when the container starts. An upgrade to a bad image stays in the second row: the old container works on. A
// better image goes to the failing container. A return to the working image ends the upgrade.
//
// During an upgrade at least a single twin is ready at any time. The Pod is not: a Pod's condition Ready covers all
// containers. A hot sidecar with a readiness probe therefore takes the Pod out of Services twice in each upgrade, while
// the new container starts and while the empty container starts.
//
// # Wire format
//
// Records on Pods are JSON in annotations with names from [Keys]. The JSON is OpenKruise's, so OpenKruise and the
// package take over each other's upgrades.
package sidecarcontrol
