// Package nodefit answers "may a Pod run on a Node?"
//
// Package nodefit is for controllers that create a Pod for a Node instead of leaving the choice to the scheduler: a Pod
// on every Node, or a run of a job on every Node. The answer is the same as from the DaemonSet controller of
// Kubernetes.
//
// # Use
//
// Compile the template's requirements with [New], once per template. [Requirements.Fits] then tells for each Node
// whether a Pod should be created there, whether a present Pod should stay, and why not:
//
//   - If the template names a Node, no other Node fits.
//   - The Node's labels must fulfil spec.nodeSelector and a term of the required node affinity.
//   - The Pod must tolerate the Node's taints of effect NoSchedule and NoExecute. A present Pod without toleration only
//     for a taint of effect NoSchedule stays, but no Pod is created.
//
// A cordoned Node counts as tainted with node.kubernetes.io/unschedulable, even before the Node has the taint. Fits
// ignores resources, ports and the affinity to other Pods, which are the scheduler's and the kubelet's affair. A job
// that ends after a run on each Node must leave out Nodes too small for its Pods even when empty: see [SizeOf].
//
// Give New the controller's additional tolerations, so Fits judges the final Pod, and place a new Pod on its Node with
// [Requirements.Place]. [DaemonSetTolerations] are the tolerations of daemons.
//
// # Pods for a Node
//
// [Requirements.Place] gives a Pod its tolerations and calls [Pin]. Pin names the Node in the Pod's affinity, so the
// scheduler binds the Pod there once there is room. [NodeOf] reads a Pod's bound or pinned Node. [PodName] names the
// Pod of a Node so that nobody can create the Pod twice. Package rollout/pernode says which Nodes need a Pod.
//
// Nodes report their health all the time: ask [Changed] first about an update of a Node, and [ChangedSize] if resources
// count.
//
// All functions are pure and safe for concurrent use, and never modify Nodes. Tolerate and Pin modify the given spec,
// but no memory shared with other specs.
package nodefit
