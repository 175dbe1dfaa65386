// Package placements answers: what does a PersistentPodState mean? Where did a Pod run, where must its successor run, and who wants one made?
//
// [Record] and [Fit] say what is recorded of the Pods of a [Workload], and [Patch] writes that. [NewStep] makes the step of the Pod webhook that
// has a new Pod go where the one of its name was, as [Inject] has it. [Generate] says what annotations of workloads ask for. The controller of
// PersistentPodStates carries this out.
//
// Workloads are StatefulSets of Kubernetes and of this group, and the kinds that the ConfigMap kruise-configuration lists. [Workloads] finds them. As
// long as nobody can say whether one exists, because its kind is not listed or not installed or may not be read, everything stays as it is.
package placements
