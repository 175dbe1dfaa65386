// Package persistentpodstate is the controller of PersistentPodStates, which record on which Node a Pod ran, so that a
// later Pod of the same name runs there again.
//
// [Reconciler] records where the ready Pods of a workload run, and drops records that are no longer needed: recordOf
// and fit compute the records, and patch writes the records. A second loop creates PersistentPodStates for workloads
// whose annotations ask for one: generate reads the annotations. A step of the Pod webhook makes the scheduler bind a
// new Pod to where the last Pod of the same name ran: inject.
//
// A record that was dropped cannot be restored. So the controller drops a record only after it has read the workload
// from the API server, whatever the caches show. The same applies to the deletion of a generated PersistentPodState. If
// it is unknown whether a workload exists (its kind is not listed, not installed or not readable), nothing is changed.
package persistentpodstate
