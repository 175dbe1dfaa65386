// Package containerrecreaterequest is the controller of ContainerRecreateRequests. A request asks to restart containers
// of a running Pod, and to report when the containers run again.
//
// Node agents carry the requests out: an agent stops containers, and the kubelet starts the containers again. Three
// components handle a request:
//
//   - Admission validates a request, and copies into the request what the agent must know about the Pod but cannot
//     read.
//   - The agent writes the phase and the states of containers, and completes the request.
//   - The controller in this package does everything else; the function decide plans what to do. If the request has
//     an unreadyGracePeriodSeconds, the controller makes the Pod not ready while the request is in progress, and
//     records since when. The controller writes the new instances of the containers into the status. It completes
//     requests that no agent can complete, because the Pod was deleted or has ended, no agent responds, or the
//     deadline has passed. After the end, the controller opens the Pod's readiness gate, removes the label for
//     agents, and deletes the request when its TTL has passed.
//
// Differences from OpenKruise:
//
//   - An instance of a container is recognized as new by its ID, not by its start time, because the clocks of Node and
//     API server differ.
//   - The controller does not poll: changes of the Pod's status cause events, and all deadlines are known in advance.
//   - The condition of a waiting request names the request for which it waits, and says whether that request has a
//     deadline.
//   - Agent and controller cannot overwrite each other's end of a request, because each write requires the version of
//     the status that was read.
//   - If the cache does not have a Pod, the API server is asked before the Pod counts as deleted.
//   - If the Pod of a request in progress has ended, the request is completed.
//   - The condition of the readiness gate always has a status, and the gate of a later Pod of the same name is not
//     changed.
//   - If a hostile Node has filled a status, the next write makes the status shorter.
package containerrecreaterequest
