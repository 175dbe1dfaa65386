// Package workloads answers "to which workload does a Pod belong, how many Pods does the workload want, and is the
// workload's kind installed?" for every kind: the kinds of Kubernetes and of this group, and kinds that users list.
//
// [Owners] finds the controllers above an object, and says how many Pods should exist. [Numbered] finds workloads with
// numbered Pods, and the ordinals that they want. Kinds may be installed and removed while a manager runs: [List]
// follows the ConfigMap in which users list kinds, and [Watches] watches these kinds as long as they are listed and
// installed. "No such object" and "unknown" are different answers. The caller decides what to do while the answer is
// unknown.
package workloads
