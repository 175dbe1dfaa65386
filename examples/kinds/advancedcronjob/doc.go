// Package advancedcronjob is the controller of AdvancedCronJobs. The controller starts jobs by a schedule: Jobs of
// Kubernetes, BroadcastJobs or ImageListPullJobs. The function decide decides without side effects: which jobs to delete from the history,
// which jobs to replace, and which slot to start. A slot is a time at which a run is due. Package schedule computes the
// slots, for the controller and for admission.
//
// A job's name contains its slot, so no slot is started twice: neither by a restarted process, nor by two leaders at
// the same time. The last started slot is recorded in the status before the job of this slot may be deleted.
//
// Differences from OpenKruise: This controller continues after any number of missed slots. The end of a Job wakes the
// controller, as the end of a BroadcastJob does. The last start is remembered even if all jobs were deleted. Runs to
// be replaced are deleted, by their UIDs, before a new run is started. Events report started slots, missed slots and
// failed starts.
package advancedcronjob
