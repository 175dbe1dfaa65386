// Package containerrecreaterequest looks after ContainerRecreateRequests, the answer to "restart these containers of a
// running Pod, and tell when they are back".
//
// Node agents carry the requests out: they stop containers, and the kubelet starts the containers again. A request lives
// in three places:
//
//   - Admission judges a request, and copies whatever an agent must know of the Pod and cannot read.
//   - The agent writes phase and states of containers, and completes the request.
//   - The controller here has the rest: decide. It keeps the Pod not ready for as long as the request runs, if the
//     request wants so, and tells the agent since when. It publishes the new instances of the containers with their
//     readiness. It completes requests that no agent can complete: the Pod is gone, the agent is silent, the deadline is
//     over. It removes whatever a request leaves behind: the entry in the Pod's readiness gate, the label for agents, and
//     after a while the request.
//
// OpenKruise differs in these points:
//
//   - An instance counts as new by its ID, not by its start: the clocks of Node and API server differ.
//   - Nothing is polled. All that the controller publishes is in the Pod's status, whose changes are events, and all
//     deadlines are known.
//   - A request behind another request of the Pod names the request in front, and says whether that one has a deadline.
//   - Agent and controller cannot overwrite each other's end: each write demands the status seen.
//   - A Pod that the cache does not have is looked up before it counts as gone.
//   - The readiness gate never has a condition without a status, and the gate of a successor of the Pod is left alone.
package containerrecreaterequest
