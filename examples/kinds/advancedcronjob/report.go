package advancedcronjob

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the outcomes of runs, for metrics.
const (
	outcomeStarted = "started"
	outcomeMissed  = "missed"
)

// runs describes the metric that counts runs by outcome.
func runs() metrics.Work {
	return metrics.Work{Things: "runs", Label: "outcome", Help: "Runs that schedules asked for, by what has become of them: started, missed."}
}

// started sends events about a run that was started, and about the slots missed before this run.
func (r *Reconciler) started(v *view, d decision, run Run) {
	r.knows.Change(v.Owner.UID, func(k *known) { k.NoteStart(d.Slot) })
	r.told.IsNews(v.Owner.UID, apps.EventFailedCreate, "")
	r.options.Metrics.Done(outcomeStarted, 1)
	r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulCreate, "created %s %s", run.Kind.Kind, run.GetName())
	r.tellMissed(v, d)
}

// refused sends events about a scheduled time whose run cannot be started, because an object with the name of the run
// exists and has another owner. The controller does not try to start this run again.
func (r *Reconciler) refused(v *view, d decision, run Run) {
	r.knows.Change(v.Owner.UID, func(k *known) { k.Refused = d.Slot })
	r.events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventNameTaken, "a %s %s is there that is not controlled by this AdvancedCronJob: the run of %s is left out",
		run.Kind.Kind, run.GetName(), d.Slot.Format(time.RFC3339))
	d.Due.Missed.N++ // the slot itself counts as missed as well
	r.tellMissed(v, d)
}

// tellMissed sends a single event about the slots missed since the last such event.
func (r *Reconciler) tellMissed(v *view, d decision) {
	r.knows.Change(v.Owner.UID, func(k *known) { k.NoteTold(d.Due.Newest) })
	missed := d.Due.Missed
	if missed.IsZero() {
		return
	}
	r.options.Metrics.Done(outcomeMissed, missed.N)
	text := ""
	if d.Why.Code != "" {
		text = ": " + d.Why.String()
	}
	r.events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventMissedSchedule, "%s runs until %s were not started%s",
		missed, d.Due.Newest.Format(time.RFC3339), text)
}

// tellFailure sends an event that the run of a slot could not be started.
func (r *Reconciler) tellFailure(v *view, slot time.Time, err error) {
	_, message := reason.Explain(err)
	if r.told.IsNews(v.Owner.UID, apps.EventFailedCreate, slot.String()+message) {
		r.events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventFailedCreate, "failed to start the run of %s: %s", slot.Format(time.RFC3339), message)
	}
}

// tell sends events that say why the run of a due slot is not started, and what is invalid in the spec.
func (r *Reconciler) tell(v *view, d decision, invalid error) {
	if invalid == nil && d.Due.Why.Code == schedule.NeverDue {
		invalid = d.Due.Why
	}
	_, message := reason.Explain(invalid)
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventInvalidAdvancedCronJob, message)
	ahead := ""
	if d.Why.Code == RunAhead {
		ahead = d.Why.String()
	}
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventRunAhead, ahead)
	switch d.Why.Code {
	case schedule.TooLate:
		r.tellMissed(v, d)
	case RunActive:
		if r.told.IsNews(v.Owner.UID, apps.EventJobAlreadyActive, d.Due.Slot.String()) {
			r.events.Event(v.Owner, corev1.EventTypeNormal, apps.EventJobAlreadyActive, d.Why.String())
		}
	}
}

// longestWait is the longest time between two reconciliations. A longer wait would be wrong if the clock were set
// forward.
const longestWait = 10 * time.Minute

// untilNext returns the time until the next slot; zero means that there is none.
func untilNext(d decision, now time.Time) time.Duration {
	if d.Due.Next.IsZero() {
		return 0
	}
	return max(min(d.Due.Next.Sub(now), longestWait), time.Millisecond)
}
