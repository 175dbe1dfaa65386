// Package sidecarterminator is the reference controller that stops the sidecars of Pods that run to completion:
// otherwise Pods of Jobs and BroadcastJobs would run for as long as their log shippers and proxies do.
//
// A container is a sidecar if its environment sets [apps.EnvTerminateSidecar] or [apps.EnvTerminateSidecarImage] to a
// literal value. When all main containers have ended (with exit code 0 if the Pod restarts on failure), the controller
// stops sidecars by a ContainerRecreateRequest, which the node agent carries out. On virtual Nodes the sidecars get
// images that exit at once. Sidecars whose exit codes are ignored are stopped last, after the controller has set the
// Pod's phase according to the exit codes of the main containers.
//
// A reconcile first checks that the cache shows all own writes, then [decide] returns what must be done for the Pod,
// and the reconcile does so. OpenKruise 1.9 makes only a single request per Pod, and sidecars that are not in this
// request keep running. This controller makes as many requests as necessary; the first has the same name as
// OpenKruise's. Requests leave out containers that were never started, because admission would refuse such a request.
// An event on the Pod says why sidecars still run.
//
// RBAC: list and watch on Pods, Nodes and ContainerRecreateRequests; create on ContainerRecreateRequests; patch on pods
// and pods/status; create and patch on events; get on Pods and ContainerRecreateRequests, for unanswered writes.
package sidecarterminator
