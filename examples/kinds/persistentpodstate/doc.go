// Package persistentpodstate reconciles PersistentPodStates, the answer to "where did this Pod run, and where must its
// successor run?".
//
// [Reconciler] records where the ready Pods of a workload run, and drops unneeded records: recordOf and fit compute the
// records, and patch writes them. A second loop makes PersistentPodStates for workloads whose annotations ask for a
// PersistentPodState: generate reads the wishes. The step of the Pod webhook sends a new Pod to the place of its
// predecessor of the same name: inject.
//
// A dropped record is lost for good. So the controller drops a record only after reading the workload from the API
// server, whatever the caches say. The same holds for deleting a generated PersistentPodState. While the existence of a
// workload is unknown (its kind is not listed, not installed or not readable), everything stays as before.
package persistentpodstate
