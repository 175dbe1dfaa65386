package apps

// AnnotationScheduledAt is the scheduled time of a job of an AdvancedCronJob. The value is written by the controller.
// Value: RFC 3339; the offset depends on the writer.
const AnnotationScheduledAt = "apps.kruise.io/scheduled-at"

// These are the events of an AdvancedCronJob, beside the events for created and deleted jobs.
const (
	// EventMissedSchedule is a Warning: jobs were not started, because no manager was running, an earlier job was still
	// running, or the deadline for the start had passed.
	EventMissedSchedule = "MissedSchedule"
	// EventJobAlreadyActive says that a job is not started until an earlier job has ended.
	EventJobAlreadyActive = "JobAlreadyActive"
	// EventRunAhead says that no job is started because the scheduled time of the newest job is in the future.
	EventRunAhead = "RunAhead"
	// EventNameTaken is a Warning: a job was not started, because another object has the job's name.
	EventNameTaken = "NameTaken"
	// EventInvalidAdvancedCronJob is a Warning: the spec is invalid, and no job is started.
	EventInvalidAdvancedCronJob = "InvalidAdvancedCronJob"
)
