// Package persistentpodstate is the controller of PersistentPodStates. A PersistentPodState records on which Node a Pod
// ran, so that the next Pod of the same name runs there again.
//
// [Reconciler] records where the ready Pods of a workload run, and drops records that are no longer needed: the
// functions recordOf and fit compute the records, and the function patch makes the write. A second loop creates
// PersistentPodStates for workloads whose annotations request one: the function generate decides from the annotations.
// A step of the Pod webhook, the function [Inject], makes the scheduler place a new Pod where the last Pod of the same
// name ran.
//
// A dropped record cannot be restored. So before a record is dropped, the controller reads the workload from the API
// server, whatever the caches show. The workload is also read before a generated PersistentPodState is deleted. If it
// is unknown whether a workload exists, because its kind is not listed, not installed or not readable, nothing is
// changed.
package persistentpodstate
