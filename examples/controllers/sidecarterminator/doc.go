// Package sidecarterminator is the reference controller for ending the sidecars of Pods that run to completion: Pods of
// Jobs and BroadcastJobs would otherwise run for as long as their log shippers and proxies do.
//
// A container is a sidecar by its environment, if [apps.EnvTerminateSidecar] or [apps.EnvTerminateSidecarImage] is set
// to a literal value. After the end of all main containers (with exit code 0 if the Pod restarts on failure), the
// controller stops sidecars by a ContainerRecreateRequest, carried out by the node agent. On virtual Nodes the sidecars
// get images that exit at once. Sidecars with ignored exit codes come last, after the controller has set the Pod's
// phase by the exit codes of the main containers.
//
// A reconcile reads from top to bottom: the cache shows all own writes, [decide] returns the next work for the Pod, and
// the reconcile carries out the work. OpenKruise 1.9 names a single request per Pod and leaves sidecars outside the
// request running. This controller uses as many request names as necessary, the first equal to OpenKruise's. Requests
// leave out containers never started, because the API would refuse such a request. An event on the Pod tells why
// sidecars run on.
//
// RBAC: list and watch on Pods, Nodes and ContainerRecreateRequests; create on ContainerRecreateRequests; patch on pods
// and pods/status; create and patch on events; get on Pods and ContainerRecreateRequests, for unanswered writes.
package sidecarterminator
