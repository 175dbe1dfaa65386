// Package containerrestart answers "which container may be stopped now, and is it back?"
//
// Somebody asks for a restart of containers in a running Pod. Nobody but the kubelet starts containers, so a restart is
// a stop, and a wait for the kubelet. Package containerrestart decides from a [Request], from the instances of the
// Node's container runtime and from the containers in the Pod's status.
//
//	step := containerrestart.Next(request, observed, now)
//	write step.Containers to the request's record, and with step.Over the end
//	if step.Stop != nil, ask a stopper.Stopper for the stop
//	look again after step.After, and after each event
//
// The record comes first and the stop second. A process that dies between both finds the old instance still running,
// and Next asks for the stop once more. [Pick] chooses between several requests for a Pod, and says who waits for whom.
//
// # Restarted
//
// An instance is a single run of a container. A request remembers the instance of each container at its beginning. A
// container counts as restarted when a newer instance runs for long enough and the Pod's status calls the newer
// instance ready. The cause of the old instance's end does not matter: a crash, an update or a probe will do. Such a
// container is not stopped again, unless the request has Force, and then once.
//
// Instances are compared by ID, never by time. The kubelet's count of restarts says who is the newest. Durations are
// measured with the runtime's times, on the clock of the Node, where the caller's now comes from too. The start of a
// request and the time of the Pod's unreadiness come from further clocks: a difference of clocks shortens or stretches
// the deadline and the wait for unreadiness.
//
// # Order
//
// A single stop is under way at a time. Without order, the next container is stopped when the stop before has ended.
// With order, the container before has to be restarted first. Nothing is stopped before the Pod has been unready for
// long enough, if the request wants the Pod unready.
//
// # The end
//
// Package completion ends a request: complete when all containers are restarted or have failed, failed at a failure or
// at the deadline. A container fails if its runtime refuses the stop, or if the kubelet does not start the container
// again. A request without deadline may wait for ever for a container without readiness; [Step.Why] says so, and so
// does [Pick] of the requests behind.
//
// # The stop
//
// A preStop hook and the runtime share the grace period: see [Grace] and [HookOf]. Package containerrestart/stopper
// carries a stop out, and package containerrestart/batch restarts the Pods of a workload within the workload's budget.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package containerrestart
