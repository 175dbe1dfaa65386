// Package persistentpodstate is the controller of PersistentPodStates. A PersistentPodState records on which Node a Pod
// ran, so that the next Pod of the same name runs there again.
//
// [Reconciler] records where the ready Pods of a workload run, and removes records that are no longer needed: the
// functions recordOf and fit compute the records, and the function patch returns the patch of the status. A second
// loop creates PersistentPodStates for workloads with annotations that request a PersistentPodState: the function
// generate decides from the annotations. A step of the Pod webhook, the function [Inject], makes the scheduler place
// a new Pod where the last Pod of the same name ran.
//
// A removed record cannot be restored. So before the controller removes a record or deletes a generated
// PersistentPodState, the controller reads the workload from the API server, whatever the caches show. If the
// controller cannot find out whether a workload exists, because the workload's kind is not configured, not installed
// or not readable, the controller changes nothing.
package persistentpodstate
