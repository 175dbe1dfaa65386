// Package nodefit answers "may this Pod run on that Node?"
//
// It is for controllers that create a Pod for a Node instead of leaving the choice to the scheduler: one Pod on every Node, one
// run of a job on every Node. The answer is the one that the DaemonSet controller of Kubernetes gives.
//
// # Use
//
// Compile what the template requires with [New], once per template. [Requirements.Fits] then tells for each Node whether a Pod
// should be created there, whether one that is there already should stay, and why not:
//
//   - Where the template names a Node, no other fits.
//   - The Node's labels must fulfil spec.nodeSelector and one term of the required node affinity.
//   - The Pod must tolerate the Node's taints of effect NoSchedule and NoExecute. A Pod that does not tolerate a taint of effect
//     NoSchedule alone stays where it is, but none is created.
//
// A Node that is cordoned counts as tainted with node.kubernetes.io/unschedulable, also before it has that taint. Resources, ports and the
// affinity to other Pods are not looked at: they are the scheduler's and the kubelet's affair. A job that is to be over when each Node is done
// leaves out Nodes that have too little for its Pods even when they are empty: [SizeOf] tells.
//
// Give New the tolerations that the controller adds to its Pods, so that a Pod is judged as it will be, and have [Requirements.Place] make a
// new Pod one of its Node. [DaemonSetTolerations] are those of daemons.
//
// # Pods for one Node
//
// [Requirements.Place] gives a Pod its tolerations and calls [Pin], which makes its affinity name its Node, so that the scheduler binds it
// there once there is room. [NodeOf] reads where a
// Pod is, or where it is pinned to. [PodName] names the Pod of a Node so that nobody can create it twice. Which Nodes need one,
// rollout.PerNode says.
//
// Nodes report their health all the time: ask [Changed] before an update of one is given a thought, and
// [ChangedSize] where resources count.
//
// Everything here is pure and safe for concurrent use. Nodes are never modified; Tolerate and Pin modify the spec that they are given, and
// nothing that it shares with others.
package nodefit
