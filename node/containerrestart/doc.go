// Package containerrestart answers "which container may be stopped now, and is it back?"
//
// Users or controllers request a restart of containers in a running Pod. Only the kubelet starts containers, so a
// restart means to stop the container and to wait until the kubelet starts the container again. Package
// containerrestart decides from a [Request], from the instances in the Node's container runtime, and from the container
// statuses in the Pod's status.
//
//	step := containerrestart.Next(request, observed, now)
//	write step.Containers to the request's record, and with step.Over the end
//	if step.Stop != nil, ask a stopper.Stopper for the stop
//	look again after step.After, and after each event
//
// The progress is recorded first, and the container is stopped afterwards. If the process dies after the record and
// before the stop, the old instance still runs, and Next returns the stop again. [Pick] chooses one of several
// requests for a Pod, and returns the reason why the other requests wait.
//
// # Restarted
//
// An instance is a single run of a container. A request records the instance of each container when the request
// begins. A container counts as restarted when a newer instance has run for long enough and is ready according to the
// Pod's status. The cause of the old instance's end does not matter: a crash, an update or a failed probe also
// counts. Such a container is not stopped again unless the request has Force set; then the container is stopped once.
//
// Instances are compared by ID, never by time. The kubelet's restart count says which instance is the newest.
// Durations are measured with the runtime's times, which come from the Node's clock, like the caller's now.
// Request.Started and Request.UnreadySince come from other clocks: if clocks differ, the deadline and the wait while
// the Pod is unready become shorter or longer.
//
// # Order
//
// Only one container of a request is stopped at a time. If the request is not ordered, the next container is stopped
// when the previous stop has ended. If the request is ordered, the previous container must have restarted first. If the
// request wants the Pod to be unready, no container is stopped before the Pod has been unready for long enough.
//
// # The end
//
// Package completion decides when a request ends: complete when all containers have restarted or failed, failed at the
// first failure or at the deadline. A container fails if its runtime refuses to stop the container, or if the kubelet
// does not start the container again. A request without a deadline may wait for ever for a container that never becomes
// ready; [Step.Why] says so, and so does [Pick] for the requests that wait.
//
// # The stop
//
// The grace period covers the preStop hook and the runtime's stop together: see [Grace] and [HookOf]. Package
// containerrestart/stopper carries out stops, and package containerrestart/batch restarts the Pods of a workload within
// the workload's budget.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package containerrestart
