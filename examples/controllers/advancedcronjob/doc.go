// Package advancedcronjob is the controller of AdvancedCronJobs: it starts jobs by a schedule, Jobs of Kubernetes or BroadcastJobs. Package cronjobs
// decides which are started, replaced and deleted, and package schedule has the arithmetic of slots.
//
// A job is named for its slot, so nobody starts one twice: not a process that has forgotten, and not two that lead at the same time. When a slot was
// started last is kept in the status before any job goes that says so.
//
// Unlike OpenKruise's, it goes on by itself after any number of missed slots; sees the end of Jobs, and not of BroadcastJobs alone; remembers when it
// started last if all jobs are gone; deletes what is replaced before it starts anew, and by UID; and tells in events what it starts, misses
// and cannot do.
package advancedcronjob
