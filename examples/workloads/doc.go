// Package workloads answers "to which workload does a Pod belong, how many Pods does the workload want, and is the
// workload's kind installed?" for every kind: the kinds of Kubernetes and of this group, and kinds that users list.
//
// [Owners] finds the controllers above an object, and says how many Pods should exist. [Numbered] finds workloads
// with numbered Pods, and the ordinals that these workloads want. Kinds may be installed and removed while a manager
// runs: [List] follows the ConfigMap in which users list kinds, and [Watches] watches these kinds as long as they are
// listed and installed. The functions distinguish a missing object from an unknown state, and the caller decides what
// to do while the state is unknown.
package workloads
