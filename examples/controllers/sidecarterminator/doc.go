// Package sidecarterminator is the reference controller that ends the sidecars of Pods that run to completion: Pods of Jobs and BroadcastJobs
// would otherwise run for as long as their log shippers and proxies do.
//
// A container is a sidecar by its environment, where [apps.EnvTerminateSidecar] or [apps.EnvTerminateSidecarImage] is set to a literal value. Once
// all others have ended (with exit code 0 where the Pod restarts on failure), sidecars are stopped by a ContainerRecreateRequest that the node
// agent carries out; on virtual Nodes they get images that exit at once. Sidecars whose exit code is to be ignored come last, after the Pod's phase
// was set by the exit codes of the main containers.
//
// A reconcile reads from top to bottom: the cache shows all own writes, [decide] says what is next for the Pod, and that is done. Where
// OpenKruise 1.9 names one request for each Pod and leaves sidecars running that it does not hold, requests have as many names as it takes;
// the first has OpenKruise's. Containers that have never started are not asked for, because such a request would be refused. What keeps sidecars
// running is told by an event on the Pod.
//
// RBAC: list and watch on Pods, Nodes and ContainerRecreateRequests; create on ContainerRecreateRequests; patch on pods and pods/status; create
// and patch on events; get on Pods and ContainerRecreateRequests, for writes that were not answered.
package sidecarterminator
