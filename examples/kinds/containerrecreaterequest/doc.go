// Package containerrecreaterequest looks after ContainerRecreateRequests, the answer to "restart these containers of a
// running Pod, and tell when they are back".
//
// Node agents carry the requests out: they stop containers, and the kubelet starts the containers again. A request lives
// in three places:
//
//   - Admission judges a request, and copies whatever an agent must know of the Pod and cannot read.
//   - The agent writes phase and states of containers, and completes the request.
//   - The controller here has the rest: decide. If the request wants so, the controller keeps the Pod not ready for as
//     long as the request runs, and tells the agent since when. The controller publishes the new instances of the
//     containers, completes requests that no agent can complete (the Pod is gone or has ended, the agent is silent, the
//     deadline is over), and cleans up: the Pod's readiness gate, the label for agents, and after a while the request.
//
// OpenKruise differs in these points:
//
//   - An instance counts as new by its ID, not by its start: the clocks of Node and API server differ.
//   - Nothing is polled. All that the controller publishes is in the Pod's status, whose changes are events, and all
//     deadlines are known.
//   - A request behind another request of the Pod names the request in front, and says whether a deadline is in sight.
//   - Agent and controller cannot overwrite each other's end: each write demands the status seen.
//   - A Pod that the cache does not have is looked up before it counts as gone.
//   - A request under way for a Pod that has ended is completed.
//   - The readiness gate never has a condition without a status, and the gate of a successor of the Pod is left alone.
//   - A status filled up by a hostile Node shrinks with the next write.
package containerrecreaterequest
