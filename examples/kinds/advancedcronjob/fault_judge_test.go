package advancedcronjob_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// moment is a possible input of a reconciliation: the content of the cache before a call.
type moment struct {
	at    time.Time
	owner *v1beta1.AdvancedCronJob
	runs  []advancedcronjob.Run
}

// sight contains the possible inputs of a reconciliation: the contents of the cache before each call, up to the first
// write of a job.
type sight struct {
	moments []moment
	wrote   bool
}

func (w *story) look(task *chaos.Task, _ *faultapi.Call) {
	s, ok := task.View.(*sight)
	if !ok {
		s = &sight{}
		task.View = s
	}
	owner := &v1beta1.AdvancedCronJob{}
	if s.wrote || task.Process.Cache.Get(context.Background(), task.Object, owner) != nil {
		return
	}
	m := moment{at: time.Now(), owner: owner}
	var jobs batchv1.JobList
	var broadcasts v1beta1.BroadcastJobList
	w.must(task.Process.Cache.List(context.Background(), &jobs))
	w.must(task.Process.Cache.List(context.Background(), &broadcasts))
	add := func(job client.Object) {
		if run, ok := advancedcronjob.Read(job); ok && controllerUID(job) == owner.UID {
			m.runs = append(m.runs, run)
		}
	}
	for i := range jobs.Items {
		add(&jobs.Items[i])
	}
	for i := range broadcasts.Items {
		add(&broadcasts.Items[i])
	}
	s.moments = append(s.moments, m)
	if first := s.moments[0]; first.owner.Generation != owner.Generation { // the owner is read before the runs
		s.moments = append(s.moments, moment{at: m.at, owner: first.owner, runs: m.runs})
	}
}

func controllerUID(job client.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(job); ref != nil {
		return ref.UID
	}
	return ""
}

// some reports whether the function is returns true for at least one of the reconciliation's possible inputs.
func (s *sight) some(is func(moment) bool) bool { return slices.ContainsFunc(s.moments, is) }

// judge checks each write of the controller.
func (w *story) judge(write *chaos.Write) {
	s, ok := write.Task.View.(*sight)
	resource := write.Call.Resource.Resource
	switch {
	case resource == "events":
		return
	case !ok || len(s.moments) == 0:
		w.Failf("blind", "%v without an AdvancedCronJob", write.Call)
	case resource == "advancedcronjobs":
		w.judgeStatus(write)
		return
	case write.Before == nil:
		w.judgeStart(s, write)
	case write.Call.Verb == "delete":
		w.judgeDeletion(s, write)
	default:
		w.Failf("foreign", "%v: jobs are not written to", write.Call)
	}
	s.wrote = true
}

func (w *story) judgeStatus(write *chaos.Write) {
	before, ok := write.Before.(*v1beta1.AdvancedCronJob)
	after, alsoOK := write.After.(*v1beta1.AdvancedCronJob)
	if !ok || !alsoOK || after.Generation != before.Generation {
		w.Failf("foreign", "%v", write.Call)
	}
	was, is := before.Status.LastScheduleTime, after.Status.LastScheduleTime
	if was != nil && (is == nil || is.Before(was)) {
		w.Failf("status", "%s: last started at %v, and then at %v", after.Name, was, is)
	}
}

func (w *story) judgeStart(s *sight, write *chaos.Write) {
	job, now := write.After, time.Now()
	digits := job.GetName()[strings.LastIndex(job.GetName(), "-")+1:]
	seconds, err := strconv.ParseInt(digits, 10, 64)
	slot := time.Unix(seconds, 0)
	annotated, annotationErr := time.Parse(time.RFC3339, job.GetAnnotations()[apps.AnnotationScheduledAt])
	uid := controllerUID(job)
	of := s.moments[0].owner
	if err != nil || annotationErr != nil || !annotated.Equal(slot) || uid != of.UID || job.GetName() != of.Name+"-"+digits || job.GetLabels()["of"] != of.Name {
		w.Failf("job", "%s: %+v", job.GetName(), job)
	}
	if w.started[uid] == nil {
		w.started[uid] = map[int64]bool{}
	}
	// After the deletion of an AdvancedCronJob, a stale cache may show the AdvancedCronJob without the job that the
	// garbage collector has deleted. The garbage collector then also deletes the newly started job.
	gone := w.owner(of.Name) == nil || w.owner(of.Name).UID != uid
	for other := range w.started[uid] {
		name := of.Name + "-" + strconv.FormatInt(other, 10)
		if other >= seconds && !w.lost[string(uid)+"/"+name] && (!gone || other > seconds) {
			w.Failf("twice", "%s is started after %s was", job.GetName(), name)
		}
	}
	w.started[uid][seconds] = true
	if slot.After(now) {
		w.Failf("early", "%s is started at %s", job.GetName(), now)
	}
	if !s.some(func(m moment) bool { return slot.After(w.changedAt(m.owner)) && m.wants(slot) }) {
		w.Failf("wanted", "%s is started, and nobody could want that", job.GetName())
	}
	w.judgeConcurrency(s, job)
}

// changedAt returns the time of the last change of an AdvancedCronJob's schedule, or zero if the schedule never
// changed. If a schedule is changed and changed back before a reconciliation records the schedule, the change does
// not count.
func (w *story) changedAt(owner *v1beta1.AdvancedCronJob) (made time.Time) {
	said, noted := times(&owner.Spec), owner.Status.ObservedSchedule
	for _, c := range w.changed[owner.UID] {
		if c.generation > owner.Generation {
			continue
		}
		made = c.made
		if c.said == said && noted != nil && said == timesNoted(noted) && noted.Since != nil && noted.Since.Time.Equal(made) {
			return made
		}
	}
	return made
}

// wants reports whether a run for the slot is due at this moment.
func (m moment) wants(slot time.Time) bool {
	spec := &m.owner.Spec
	when, err := schedule.Parse(spec.Schedule, spec.TimeZone, time.UTC)
	if err != nil || ptr.Deref(spec.Paused, false) || m.at.Before(slot) {
		return false
	}
	if spec.StartingDeadlineSeconds != nil && m.at.Unix()-slot.Unix() > *spec.StartingDeadlineSeconds {
		return false
	}
	if !strings.HasPrefix(spec.Schedule, "@every") && !when.Next(slot.Add(-time.Second)).Equal(slot) {
		return false
	}
	newer := when.Due(schedule.Window{Last: slot, Now: m.at})
	return newer.Newest.IsZero()
}

// judgeConcurrency compares a started run with the runs on the API server, not in the cache, because the controller
// must know the runs that it has started.
func (w *story) judgeConcurrency(s *sight, started client.Object) {
	policy := func(p v1beta1.ConcurrencyPolicy) bool {
		return !s.some(func(m moment) bool { return m.owner.Spec.ConcurrencyPolicy != p })
	}
	for _, job := range w.jobs() {
		run, _ := advancedcronjob.Read(job)
		if job.GetUID() == started.GetUID() || controllerUID(job) != controllerUID(started) || !isActive(run) || w.byUser[job.GetUID()] {
			continue
		}
		if policy(v1beta1.ForbidConcurrent) {
			w.Failf("forbid", "%s is started while %s goes on", started.GetName(), job.GetName())
		}
		if policy(v1beta1.ReplaceConcurrent) && !run.Ending() {
			w.Failf("replace", "%s is started while %s stays", started.GetName(), job.GetName())
		}
	}
}

func (w *story) judgeDeletion(s *sight, write *chaos.Write) {
	job := write.Before
	run, _ := advancedcronjob.Read(job)
	if controllerUID(job) != s.moments[0].owner.UID {
		w.Failf("foreign", "%s is deleted", job.GetName())
	}
	owner := w.owner(s.moments[0].owner.Name)
	written := owner != nil && owner.UID == controllerUID(job) && owner.Status.LastScheduleTime != nil && !owner.Status.LastScheduleTime.Time.Before(run.Slot)
	if owner != nil && owner.UID == controllerUID(job) && !run.Slot.IsZero() && !written {
		w.Failf("forgotten", "%s is deleted, and its slot is written down nowhere", job.GetName())
	}
	if !s.some(func(m moment) bool { return m.dropsReplaced(run, w.changedAt(m.owner)) || m.dropsHistory(run) }) {
		w.Failf("deleted", "%s is deleted, which is %s", job.GetName(), run.State)
	}
}

// dropsReplaced reports whether a run must be deleted before the next run is started.
func (m moment) dropsReplaced(run advancedcronjob.Run, changed time.Time) bool {
	i := slices.IndexFunc(m.runs, func(r advancedcronjob.Run) bool { return r.GetUID() == run.GetUID() })
	if i < 0 || !isActive(m.runs[i]) || m.owner.Spec.ConcurrencyPolicy != v1beta1.ReplaceConcurrent || ptr.Deref(m.owner.Spec.Paused, false) {
		return false
	}
	when, err := schedule.Parse(m.owner.Spec.Schedule, m.owner.Spec.TimeZone, time.UTC)
	if err != nil {
		return false
	}
	q := window(m.owner, m.at)
	q.From = changed
	for i := range m.runs {
		if m.runs[i].Slot.After(q.Last) {
			q.Last = m.runs[i].Slot
		}
	}
	return !when.Due(q).Newest.IsZero()
}

// dropsHistory reports whether a run has ended and exceeds the history limit: at least as many runs as the limit are
// as new or newer.
func (m moment) dropsHistory(run advancedcronjob.Run) bool {
	limit := ptr.Deref(m.owner.Spec.SuccessfulJobsHistoryLimit, 3)
	if run.State == advancedcronjob.Failed {
		limit = ptr.Deref(m.owner.Spec.FailedJobsHistoryLimit, 1)
	}
	kept := int32(0)
	for i := range m.runs {
		if r := m.runs[i]; r.State == run.State && !r.Ending() && r.GetUID() != run.GetUID() && !r.Began.Before(run.Began) {
			kept++
		}
	}
	return !isActive(run) && kept >= limit
}

// converged checks the final state: all jobs have ended, and each AdvancedCronJob was due once more.
func (w *story) converged() {
	for _, owner := range faultapi.All[*v1beta1.AdvancedCronJob](w.Server) {
		var last time.Time
		count := map[advancedcronjob.State]int32{}
		for _, job := range w.jobs() {
			run, _ := advancedcronjob.Read(job)
			if controllerUID(job) == owner.UID {
				count[run.State]++
				if run.Slot.After(last) {
					last = run.Slot
				}
			}
		}
		at := owner.Status.LastScheduleTime
		if !last.IsZero() && (at == nil || at.Time.Before(last)) {
			w.Failf("converged", "%s was last started at %v, and there is a job of %s", owner.Name, at, last)
		}
		if slot, due := w.due[owner.UID]; due && !w.taken[owner.Name+"-"+strconv.FormatInt(slot.Unix(), 10)] && (at == nil || at.Time.Before(slot)) {
			w.Failf("due", "%s was to be started at %s, and was last at %v", owner.Name, slot, at)
		}
		spec := &owner.Spec
		if count[advancedcronjob.Succeeded] > ptr.Deref(spec.SuccessfulJobsHistoryLimit, 3) || count[advancedcronjob.Failed] > ptr.Deref(spec.FailedJobsHistoryLimit, 1) {
			w.Failf("history", "%s: %v", shownOwner(owner), count)
		}
		if len(owner.Status.Active) != 0 || count[advancedcronjob.Active] != 0 || owner.Status.Type == "" {
			w.Failf("converged", "%s: %v, status %+v", owner.Name, count, owner.Status)
		}
	}
}
