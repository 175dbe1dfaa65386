// Package placements gives PersistentPodStates their meaning: where a Pod ran, where its successor must run, and which
// workloads ask for a PersistentPodState.
//
// [Record] and [Fit] compute the records of a [Workload]'s Pods, and [Patch] writes the records. [NewStep] makes the
// step of the Pod webhook: with [Inject], the step sends a new Pod to the place of its predecessor of the same name.
// [Generate] reads the wishes in the annotations of workloads. The controller of PersistentPodStates carries out the
// results.
//
// Workloads are StatefulSets of Kubernetes and of this group, and objects of the kinds listed by the ConfigMap
// kruise-configuration. [Workloads] finds workloads. A workload's existence is unknown while its kind is not listed,
// not installed or not readable. Then everything stays as before.
package placements
