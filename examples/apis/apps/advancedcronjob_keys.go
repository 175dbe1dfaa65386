package apps

// AnnotationScheduledAt is the scheduled time of a job, on jobs of an AdvancedCronJob. Written by the controller.
// Value: RFC 3339; the offset depends on the writer.
const AnnotationScheduledAt = "apps.kruise.io/scheduled-at"

// Events of an AdvancedCronJob, beside the events for created and deleted jobs.
const (
	// EventMissedSchedule is a Warning: runs were not started, because no manager was running, an earlier run went on,
	// or the start came too late.
	EventMissedSchedule = "MissedSchedule"
	// EventJobAlreadyActive says that a run waits for the end of an earlier run.
	EventJobAlreadyActive = "JobAlreadyActive"
	// EventRunAhead says that nothing is started because the newest run is for a time in the future.
	EventRunAhead = "RunAhead"
	// EventNameTaken is a Warning: a run was not started, because another object has the run's name.
	EventNameTaken = "NameTaken"
	// EventInvalidAdvancedCronJob is a Warning: the spec makes no sense, and nothing is started.
	EventInvalidAdvancedCronJob = "InvalidAdvancedCronJob"
)
