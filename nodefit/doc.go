// Package nodefit answers "may a Pod run on a Node?"
//
// Package nodefit is for controllers that create a Pod for a Node instead of leaving the choice to the scheduler: a
// Pod on every Node, or a job with a Pod on every Node. The verdict is the same as that of the DaemonSet controller
// of Kubernetes.
//
// # Use
//
// Compile the template's requirements with [New], once per template. [Requirements.Fits] then says for each Node
// whether a Pod should be created there, whether an existing Pod should stay there, and the reasons against the Node:
//
//   - If the template names a Node, no other Node fits.
//   - The Node's labels must match spec.nodeSelector and a term of the required node affinity.
//   - The Pod must tolerate the Node's taints of effect NoSchedule and NoExecute. If the Pod lacks a toleration for a
//     taint of effect NoSchedule, no Pod is created on the Node, but a Pod that already runs on the Node stays.
//
// A cordoned Node counts as tainted with node.kubernetes.io/unschedulable, even before the Node controller adds the
// taint. Fits ignores resources, ports and the affinity to other Pods, which the scheduler and the kubelet check. If
// a job is complete only after its Pod has run on each Node, the job must leave out Nodes that are too small for the
// Pod even without other Pods: see [SizeOf].
//
// Pass the tolerations that the controller adds to its Pods to New, so that Fits uses the tolerations that the
// created Pod will have. Pin a new Pod to its Node with [Requirements.Place]. [DaemonSetTolerations] are the
// tolerations that Kubernetes adds to Pods of DaemonSets.
//
// # Pods for a Node
//
// [Requirements.Place] adds the tolerations to a Pod and calls [Pin]. Pin names the Node in the Pod's affinity, so
// that the scheduler binds the Pod to this Node once the Node has enough free resources. [NodeOf] returns the Node to
// which a Pod is bound or pinned. [PodName] gives the Pod of a Node a fixed name, so that two processes cannot create
// the Pod twice. Package rollout/pernode decides which Nodes need a Pod.
//
// Nodes report their health all the time. On an update of a Node, first find out with [Changed] whether the update
// matters, and with [ChangedSize] if the controller checks resources.
//
// All functions are pure and safe for concurrent use, and never modify Nodes. Tolerate and Pin modify the given spec,
// but no memory shared with other specs.
package nodefit
