// Package advancedcronjob is the controller of AdvancedCronJobs. The controller starts jobs by a schedule: Jobs of
// Kubernetes or BroadcastJobs. decide plans a pass without effects: the jobs to delete from the history, the jobs to
// replace, and the slot to start. Package schedule has the arithmetic of slots, and admission asks schedule, too.
//
// A job is named after its slot, so nobody starts a slot twice: neither a forgetful process, nor two leaders at the
// same time. The status records the last started slot before the job of the slot goes.
//
// OpenKruise differs. This controller continues without help after any number of missed slots. This controller sees the
// end of Jobs as well as of BroadcastJobs, and remembers the last start when all jobs are gone. This controller deletes
// replaced runs before a new start, and by UID. Events tell of started and missed slots and of failures.
package advancedcronjob
