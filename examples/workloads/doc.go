// Package workloads answers "which workload is this Pod's, how many Pods does it want, and is its kind there at all?"
// for every kind: the kinds of Kubernetes and of this group, and kinds that users list.
//
// [Owners] knows the controllers above an object, and how many Pods should exist. [Numbered] finds workloads with
// numbered Pods, and their ordinals. Kinds may come and go while a manager runs: [List] follows the ConfigMap that
// lists further kinds, and [Watches] watch the kinds as long as the kinds are listed and installed. "No such object"
// and "unknown" are two answers, and the caller decides what to do meanwhile.
package workloads
