// Package workloads finds the workload of a Pod, the number of Pods that the workload wants, and whether the
// workload's kind is installed. The package covers the kinds of Kubernetes and of apps.kruise.io, and kinds that
// users list in a ConfigMap.
//
// [Owners] finds the controllers of an object, their controllers and so on, and the number of Pods that should exist.
// [Numbered] finds workloads whose Pods have ordinals, and the ordinals that these workloads want. Kinds may be
// installed and removed while a manager runs: [List] follows the ConfigMap in which users list kinds, and [Watches]
// watches these kinds as long as they are listed and installed. The functions distinguish a missing object from an
// unknown state, and the caller decides what to do while the state is unknown.
package workloads
