package apps

// AnnotationScheduledAt is the time of the schedule for which a job was started, on jobs of an AdvancedCronJob. Written by the controller. Value:
// RFC 3339; the offset depends on who wrote it.
const AnnotationScheduledAt = "apps.kruise.io/scheduled-at"

// Events of an AdvancedCronJob, beside those of jobs that are created and deleted.
const (
	// EventMissedSchedule is a Warning: runs were not started, because nobody was there to do so, an earlier run went on, or it was too late.
	EventMissedSchedule = "MissedSchedule"
	// EventJobAlreadyActive says that a run waits for the end of an earlier one.
	EventJobAlreadyActive = "JobAlreadyActive"
	// EventRunAhead says that nothing is started because the newest run is for a time that is still to come.
	EventRunAhead = "RunAhead"
	// EventNameTaken is a Warning: a run was not started, because something else has its name.
	EventNameTaken = "NameTaken"
	// EventInvalidAdvancedCronJob is a Warning: the spec makes no sense, and nothing is started.
	EventInvalidAdvancedCronJob = "InvalidAdvancedCronJob"
)
