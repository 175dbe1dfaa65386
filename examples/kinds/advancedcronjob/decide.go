package advancedcronjob

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// RunActive means that a run is due, but is started only after the previous run has ended.
	RunActive reason.Code = "RunActive"
	// RunReplaced means that a run is due, but is started only after the previous runs are deleted.
	RunReplaced reason.Code = "RunReplaced"
	// RunNameTaken means that a run is not started because another owner's object has the name of the run's job.
	RunNameTaken reason.Code = "RunNameTaken"
	// RunAhead means that the newest run was started for a time in the future. Either the clock was set back, or a
	// user has created the run. No run is due before this time.
	RunAhead reason.Code = "RunAhead"
)

// known is what the process remembers about an AdvancedCronJob. The zero value means that the process has never
// reconciled the AdvancedCronJob.
type known struct {
	// Started is the newest slot whose run was started, even if the cache does not show the run yet. A slot is a time
	// at which a run is due.
	Started time.Time
	// Refused is the newest slot whose run could not be started because another owner's object has the name.
	Refused time.Time
	// Told is the newest slot up to which events about missed slots were sent.
	Told time.Time
	// Schedule is the schedule in the spec when this process last reconciled the AdvancedCronJob; nil means never.
	Schedule *v1beta1.ObservedSchedule
}

// NoteStart records that the run of a slot was started.
func (k *known) NoteStart(slot time.Time) { k.Started = newer(k.Started, slot) }

// NoteTold records that events about the missed slots up to a slot were sent.
func (k *known) NoteTold(slot time.Time) { k.Told = newer(k.Told, slot) }

// decision says what a reconciliation must do.
type decision struct {
	// Status is the status to write; it is written before anything else is done.
	Status v1beta1.AdvancedCronJobStatus
	// Trim lists the ended runs to delete, because the history limits are exceeded.
	Trim []Run
	// Replace lists the runs to delete before the new run is started.
	Replace []Run
	// Slot is the slot whose run is to be started, or zero if there is none.
	Slot time.Time
	// Due is the result of the method Due of the schedule.
	Due schedule.Due
	// Why is the reason why the run of a due slot is not started.
	Why reason.Reason
}

// Started returns the status to write after the run has been started.
func (d *decision) Started(run Run) v1beta1.AdvancedCronJobStatus {
	status := *d.Status.DeepCopy()
	status.Active = append(status.Active, reference(run, nil))
	status.LastScheduleTime = &metav1.Time{Time: d.Slot}
	return status
}

// decide decides what to do for an AdvancedCronJob with the given runs. If the schedule is nil because it cannot be
// parsed, no run is started.
func decide(owner *v1beta1.AdvancedCronJob, runs []Run, when *schedule.Schedule, known known, now time.Time) decision {
	last := lastStarted(owner.Status.LastScheduleTime, runs, known.Started, now)
	counted, _ := counted(owner, known, now)
	d := decision{Status: status(owner, runs, last, counted)}
	if when == nil {
		return d
	}
	d.Trim = trim(owner, runs)
	if ptr.Deref(owner.Spec.Paused, false) {
		return d
	}
	d.Due = when.Due(schedule.Window{
		Last: last, Created: owner.CreationTimestamp.Time, From: changed(&counted), Told: believed(known.Told, now),
		Deadline: owner.Spec.StartingDeadlineSeconds, Now: now,
	})
	slot := d.Due.Slot
	switch active := unfinished(runs); {
	case slot.IsZero() && last.After(now.Add(skew)):
		d.Why = reason.Reason{
			Code: RunAhead, New: last.Format(time.RFC3339), Detail: "the newest run is for a time that is still to come; nothing is due before",
			Remedy: "if the clock was put back, delete that run and set status.lastScheduleTime to an earlier time",
		}
	case slot.IsZero():
		d.Why = d.Due.Why
	case slot.Equal(known.Refused):
		d.Why = reason.Reason{Code: RunNameTaken, New: api.JobName(owner.Name, slot)}
	case owner.Spec.ConcurrencyPolicy == v1beta1.ForbidConcurrent && len(active) > 0:
		d.Why = reason.Reason{
			Code: RunActive, Object: reason.Object{Kind: active[0].Kind.Kind, Name: active[0].GetName()}, New: slot.Format(time.RFC3339),
			Detail: "is started when it has ended",
		}
	case owner.Spec.ConcurrencyPolicy == v1beta1.ReplaceConcurrent && slices.ContainsFunc(active, isStaying):
		d.Replace = slices.DeleteFunc(active, Run.Ending)
		d.Why = reason.Reason{Code: RunReplaced, New: slot.Format(time.RFC3339)}
	default:
		d.Slot = slot
	}
	return d
}

func isStaying(r Run) bool { return !r.Ending() }

// ahead is how far a recorded slot may be in the future. A slot within this limit is trusted, because the clock of
// the process that recorded the slot may be right. A slot beyond the limit is ignored, because no run would be
// started until then.
const ahead = 24 * time.Hour

// skew is the tolerated difference between the clocks of two processes.
const skew = time.Minute

// lastStarted returns the newest slot whose run was started, or zero if there is none. If the slot in the status is too
// far in the future, because the clock has been corrected since, the present time is used instead.
func lastStarted(stored *metav1.Time, runs []Run, started, now time.Time) time.Time {
	last := believed(started, now)
	if stored != nil {
		at := stored.Time
		if believed(at, now).IsZero() {
			at = now.Truncate(time.Second)
		}
		last = newer(last, at)
	}
	for i := range runs {
		last = newer(last, believed(runs[i].Slot, now))
	}
	return last
}

// believed returns the slot, or zero if the slot is further in the future than the constant ahead allows.
func believed(slot, now time.Time) time.Time {
	if slot.After(now.Add(ahead)) {
		return time.Time{}
	}
	return slot
}

func newer(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// unfinished returns the runs that have not ended, the oldest first.
func unfinished(runs []Run) []Run {
	return inOrder(slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.State != Active }))
}

func inOrder(runs []Run) []Run {
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(a.Slot.Compare(b.Slot), a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.Kind.Kind, b.Kind.Kind),
			cmp.Compare(a.GetName(), b.GetName()))
	})
	return runs
}

// status returns the status to write. References to runs keep the resourceVersion with which the references were
// first written.
func status(owner *v1beta1.AdvancedCronJob, runs []Run, last time.Time, counted v1beta1.ObservedSchedule) v1beta1.AdvancedCronJobStatus {
	out := v1beta1.AdvancedCronJobStatus{Type: typeOf(&owner.Spec.Template)}
	if !last.IsZero() {
		out.LastScheduleTime = &metav1.Time{Time: last}
	}
	active := unfinished(runs)
	for _, run := range active[max(0, len(active)-mostActive):] {
		out.Active = append(out.Active, reference(run, owner.Status.Active))
	}
	if owner.Status.ObservedSchedule != nil || counted.Since != nil || !equality.Semantic.DeepEqual(out, owner.Status) {
		out.ObservedSchedule = &counted // an unchanged schedule alone is no reason to write the status
	}
	return out
}

// mostActive is the largest number of runs that the status lists; the newest runs are listed. A longer list could
// become too large to write, and then no run would be started any more.
const mostActive = 1000

func reference(run Run, known []corev1.ObjectReference) corev1.ObjectReference {
	for i := range known {
		if known[i].UID == run.GetUID() {
			return known[i]
		}
	}
	version, kind := run.Kind.ToAPIVersionAndKind()
	return corev1.ObjectReference{
		APIVersion: version, Kind: kind, Namespace: run.GetNamespace(), Name: run.GetName(), UID: run.GetUID(), ResourceVersion: run.GetResourceVersion(),
	}
}

// typeOf returns the type of the job in the template. If the template contains several jobs, typeOf returns the type of
// the first.
func typeOf(t *v1beta1.CronJobTemplate) v1beta1.AdvancedCronJobTemplateType {
	switch {
	case t.JobTemplate != nil:
		return v1beta1.JobTemplate
	case t.ImageListPullJobTemplate != nil:
		return v1beta1.ImageListPullJobTemplate
	case t.BroadcastJobTemplate != nil:
		return v1beta1.BroadcastJobTemplate
	}
	return ""
}

// trim returns the oldest ended runs, as many as exceed the history limits.
func trim(owner *v1beta1.AdvancedCronJob, runs []Run) (out []Run) {
	for state, limit := range map[State]int32{
		Succeeded: ptr.Deref(owner.Spec.SuccessfulJobsHistoryLimit, api.DefaultSuccessfulJobsHistoryLimit),
		Failed:    ptr.Deref(owner.Spec.FailedJobsHistoryLimit, api.DefaultFailedJobsHistoryLimit),
	} {
		kept := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.State != state || r.Ending() })
		slices.SortFunc(kept, func(a, b Run) int {
			return cmp.Or(a.Began.Compare(b.Began), a.Slot.Compare(b.Slot), cmp.Compare(a.GetName(), b.GetName()))
		})
		out = append(out, kept[:max(0, len(kept)-int(max(limit, 0)))]...)
	}
	return inOrder(out)
}
