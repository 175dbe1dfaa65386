// Package onnode carries out ContainerRecreateRequests on a Node: it is the part of the kind that runs in a node agent.
//
// [Restarts.Work] is the work of an agent (package node/agent) for a Pod: it chooses the request to handle, asks
// package containerrestart for the next step, records the progress in the request's status, and then stops the
// container. Unlike OpenKruise's agent, this agent
//
//   - takes preStop hook and grace period from the runtime's record of the container: a sleep hook works, and an HTTP
//     hook sends its request only to the Pod, whatever host the hook names;
//   - reads the Pod's own status, and does not wait for the controller's snapshot;
//   - writes a status only on condition that the status is unchanged, so an end written by the controller stays.
//
// The agent records a stop before it happens: if the agent dies in between, it stops the container after its restart.
package onnode
