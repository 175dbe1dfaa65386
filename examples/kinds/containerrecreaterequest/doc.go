// Package containerrecreaterequest is the controller of ContainerRecreateRequests: requests to restart containers of a
// running Pod, and to report when the containers run again.
//
// Node agents carry out the requests: they stop containers, and the kubelet starts the containers again. Three programs
// handle a request:
//
//   - Admission validates a request, and copies what the agent must know about the Pod and cannot read.
//   - The agent writes the phase and the states of containers, and completes the request.
//   - The controller in this package decides the rest (decide). If the request asks so, the controller makes the Pod
//     not ready while the request is in progress, and records since when. The controller writes the new instances of
//     the containers into the status, and completes requests that no agent can complete: the Pod was deleted or has
//     ended, no agent responds, or the deadline has passed. Afterwards the controller opens the Pod's readiness gate,
//     removes the label for agents, and deletes the request after a while.
//
// Differences from OpenKruise:
//
//   - An instance counts as new by its ID, not by its start time: the clocks of Node and API server differ.
//   - The controller does not poll. Everything that the controller publishes is in the Pod's status, whose changes
//     cause events, and all deadlines are known in advance.
//   - A request that waits for another request of the Pod names that request, and says whether it has a deadline.
//   - Agent and controller cannot overwrite each other's end of a request: each write requires the version of the
//     status that was read.
//   - If the cache does not have a Pod, the API server is asked before the Pod counts as deleted.
//   - A request in progress is completed if its Pod has ended.
//   - The readiness gate never has a condition without a status, and the gate of a later Pod of the same name is not
//     changed.
//   - If a hostile Node has filled a status, the next write shortens the status.
package containerrecreaterequest
