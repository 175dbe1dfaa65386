// Package onnode carries ContainerRecreateRequests out on a Node: the half of the kind in a node agent.
//
// [Restarts.Work] is the work of an agent (package node/agent) for a Pod: the request whose turn it is, the next step
// by package containerrestart, the record into the request's status, and then the stop. Unlike OpenKruise's agent,
// this one
//
//   - takes hook and grace period from the runtime's record of the container: a sleep works, and a request to the Pod
//     reaches the Pod whatever host the hook names;
//   - looks at the Pod's own status, without a wait for the controller's snapshot;
//   - writes a status only onto the status it has seen, so the controller's end of a request stays.
//
// The agent's record is of a stop to come: an agent that dies in between stops the container after its next start.
package onnode
