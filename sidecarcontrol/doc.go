// Package sidecarcontrol answers "which sidecars does a Pod get, and may the Pod get newer sidecars now?".
//
// A set of sidecars is defined once and injected into Pods when they are created, whoever creates the Pods. Later
// upgrades change the set's images in running Pods, without a restart of any other container.
//
//   - [Index.Match] finds the sets for a Pod among thousands of sets.
//   - [Control.Inject] puts the sets' sidecars into a Pod: containers, native sidecars, init containers, mounts and env
//     copied from the Pod's own containers, volumes, pull secrets and annotations. A Pod gets all of its sidecars, or
//     its creation is refused.
//   - [Control.Read] compares a Pod with a set: whether the Pod has the set's newest sidecars, why an in-place
//     upgrade is impossible, and why an upgrade that has begun is not complete.
//   - [Choose] returns the next Pods to upgrade, and the reasons why the list is not longer.
//   - [Control.Upgrade] and [Control.Flip] return the changes, each a single patch of the Pod.
//
// All functions are pure. Package podwebhook below answers the API server's requests, and package upgrader carries out
// upgrades. A whole operator for a sidecar of its own, including the webhook, takes 200 lines: examples/embed/sidecars.
//
// # What can be upgraded in place
//
// Only images can be upgraded. The API server lets nobody change other fields of a container in an existing Pod. If the
// sidecars differ in another field, the Pod is not changed until somebody recreates the Pod, and a condition of the Pod
// says so. Native sidecars (init containers with restartPolicy Always) are upgraded like ordinary containers. Init
// containers that have ended are not upgraded.
//
// An upgrade is complete when the node's report proves that the new image runs, by the rules of package
// inplaceupdate. For each set, an annotation records each container's earlier image.
//
// # Hot upgrades
//
// A sidecar that must run without any gap is injected twice, as <name>-1 and <name>-2. One of the twins is working and
// runs the sidecar's image; the other is idle and runs an empty image.
//
//	                 <name>-1   <name>-2   works
//	injected         v1         empty      1
//	Upgrade to v2    v1         v2         2       both run; the new twin takes over from the old twin
//	Flip             empty      v2         2       once the new twin is ready
//	Upgrade to v3    v3         v2         1
//	Flip             v3         empty      1
//
// Annotations give each container its own version and its twin's version. A container reads these annotations through
// env variables when the container starts. If the new image does not work, the upgrade stays in the second row of the
// table, and the old container continues to work. A later upgrade gives a corrected image to the failing container.
// If the set's image becomes the working container's image again, the upgrade ends.
//
// During an upgrade at least one of the twins is ready at any time. The Pod as a whole is not always Ready: a Pod's
// Ready condition covers all containers. A hot sidecar with a readiness probe therefore takes the Pod out of Services
// twice in each upgrade, while the new container starts and while the empty container starts.
//
// # Wire format
//
// Records on Pods are JSON in annotations with names from [Keys]. The JSON is OpenKruise's format, so OpenKruise and
// the package can continue each other's upgrades.
package sidecarcontrol
