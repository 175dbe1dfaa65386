// Package sidecarterminator is the reference controller that stops the sidecars of Pods that run to completion. Without
// the controller, Pods of Jobs and BroadcastJobs would run as long as log shippers and proxies run.
//
// A container is a sidecar if its environment sets [apps.EnvTerminateSidecar] or [apps.EnvTerminateSidecarImage] to a
// literal value. When all main containers have ended (with exit code 0 if the Pod restarts on failure), the
// controller creates a ContainerRecreateRequest, and the node agent stops the sidecars. On virtual Nodes, the
// controller replaces the images of the sidecars by images that exit at once. Sidecars whose exit codes are ignored
// are stopped last. Before these sidecars are stopped, the controller sets the Pod's phase according to the exit
// codes of the main containers.
//
// A reconcile first checks that the cache shows all of the controller's writes. Then [decide] returns the steps for
// the Pod, and the reconcile carries out the steps. OpenKruise 1.9 creates only a single request for each Pod, so
// sidecars that are not in this request keep running. This controller makes as many requests as necessary; the first
// request has the name that OpenKruise uses. Containers that were never started are left out of requests, because
// admission would refuse such a request. An event on the Pod says why sidecars still run.
//
// The controller needs these permissions: list and watch on Pods, Nodes and ContainerRecreateRequests; create on
// ContainerRecreateRequests; patch on pods and pods/status; create and patch on events. If the API server has not
// answered a write, the controller also needs get on Pods and ContainerRecreateRequests.
package sidecarterminator
