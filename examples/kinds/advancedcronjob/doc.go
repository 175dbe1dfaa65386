// Package advancedcronjob is the controller of AdvancedCronJobs. The controller starts jobs by a schedule: Jobs of
// Kubernetes or BroadcastJobs. decide plans a pass without effects: the jobs to delete from the history, the jobs to
// replace, and the slot to start (a slot is a time at which a run is due). Package schedule computes slots, also for
// admission.
//
// A job's name contains its slot, so no slot is started twice: not by a restarted process, and not by two leaders at
// the same time. The status records the slot started last before the job of this slot is deleted.
//
// Differences from OpenKruise: This controller continues by itself after any number of missed slots. This controller
// notices the end of Jobs as well as of BroadcastJobs, and remembers the last start even if all jobs were deleted. This
// controller deletes replaced runs before a new run is started, and deletes them by UID. Events report started slots,
// missed slots and failures.
package advancedcronjob
