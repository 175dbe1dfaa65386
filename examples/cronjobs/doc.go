// Package cronjobs decides about the runs of an AdvancedCronJob. [Read] reads a job as a run of the controlling
// AdvancedCronJob. [Decide] plans a pass: the jobs to delete from the history, the jobs to replace, and the slot of the
// schedule to start. Both are pure. [KeepJob] strips a Job in a cache down to the fields read here.
//
// Package cronjobs is separate from package schedule. Schedule answers when a slot is due. Admission asks schedule,
// too, and the answer depends on neither jobs nor AdvancedCronJobs.
package cronjobs
