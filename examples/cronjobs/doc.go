// Package cronjobs answers: which runs of an AdvancedCronJob are started, replaced and deleted now? [Read] says what a job is to the AdvancedCronJob
// that controls it, and [Decide] what a pass does: which jobs are deleted from the history, which are replaced, and whether one is started, for which
// slot of the schedule. Both are pure. [KeepJob] leaves of a Job in a cache what they read.
//
// It is no part of package schedule, which says when something is due: admission asks that, too, and it needs to know neither jobs nor
// AdvancedCronJobs for an answer.
package cronjobs
