// Package persistentpodstate reconciles PersistentPodStates: it answers "where did this Pod run, and where must its successor run?".
//
// [Reconciler] records where the ready Pods of a workload run, and drops records that nobody needs any more. A second loop makes PersistentPodStates
// for workloads whose annotations ask for one. What they decide is in package placements, as is the step of the Pod webhook.
//
// A record cannot be found out again once it is dropped. So a record is dropped only after the workload was read from the API server, whatever the
// caches say, and a PersistentPodState that was generated is deleted only then. As long as nobody can say whether a workload exists, everything stays as
// it is.
package persistentpodstate
