// Package persistentpodstate reconciles PersistentPodStates, the answer to "where did this Pod run, and where must its
// successor run?".
//
// [Reconciler] records where the ready Pods of a workload run, and drops unneeded records. A second loop makes
// PersistentPodStates for workloads whose annotations ask for a PersistentPodState. Package placements has the
// decisions of both loops, and the step of the Pod webhook.
//
// A dropped record is lost for good. So the controller drops a record only after reading the workload from the API
// server, whatever the caches say. The same holds for deleting a generated PersistentPodState. While the existence of a
// workload is unknown, everything stays as before.
package persistentpodstate
