// Package onnode carries out ContainerRecreateRequests in a node agent: the requests for the Pods of a Node.
//
// [Restarts.Work] is the work of an agent (package node/agent) for a Pod. The work chooses the request to handle, asks
// package containerrestart for the next step, records the progress in the request's status, and then stops the
// container. Unlike OpenKruise's agent, this agent
//
//   - takes the preStop hook and the grace period from the container's annotations in the container runtime: a sleep
//     hook works, and an HTTP hook sends its request only to the Pod, whatever host the hook names;
//   - reads the Pod's status itself, and does not wait for the controller's snapshot;
//   - writes a status only if the status has not changed since it was read, so an end written by the controller is
//     never overwritten.
//
// The agent records the stop of a container before the stop begins: if the agent dies in between, the restarted agent
// stops the container.
package onnode
