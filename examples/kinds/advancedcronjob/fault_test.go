package advancedcronjob_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, no slot is started twice. With Forbid no run begins during another run, with Replace
// no run begins while an old run exists. No run begins before its slot, after its deadline, or after a newer slot is
// due. The controller deletes only its own runs: ended runs beyond the history limit, and replaced runs, after their
// start is recorded. In the end every due slot is started, and the history is within its limits.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return chaos.Plan{
		Scheme: scheme, Seeds: 300, Steps: 800, Quiet: 3 * time.Minute,
		Kinds: []client.Object{&v1beta1.AdvancedCronJob{}, &batchv1.Job{}, &v1beta1.BroadcastJob{}, &v1beta1.ImageListPullJob{}},
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, started: map[types.UID]map[int64]bool{}, byUser: map[types.UID]bool{}, lost: map[string]bool{}, taken: map[string]bool{}, changed: map[types.UID][]change{}}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.outside, Settle: w.settle, Denies: w.denies, Looks: w.look, Wrote: w.judge,
				Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	full    bool                         // a quota for jobs is used up
	started map[types.UID]map[int64]bool // slots, by AdvancedCronJob
	byUser  map[types.UID]bool           // jobs made by users
	lost    map[string]bool              // jobs that users deleted before the controller could record the start
	taken   map[string]bool              // names of runs that jobs of other owners have
	due     map[types.UID]time.Time      // slots to start in the end
	changed map[types.UID][]change       // users' changes of schedules
}

func names() []string { return []string{"every", "minutely", "nightly"} }

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return advancedcronjob.Setup(ctx, mgr, mgr.GetClient(), advancedcronjob.Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for _, name := range names() {
		w.create(name)
	}
}

func (w *story) create(name string) {
	obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	if w.Chance(50) {
		obj.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": name}}}
	} else {
		obj.Spec.Template.BroadcastJobTemplate = &v1beta1.BroadcastJobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": name}}}
		obj.Spec.Template.BroadcastJobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	obj.Spec.Schedule = "* * * * *"
	w.edit(obj)
	w.editTimes(obj)
	if w.User.Create(context.Background(), obj) == nil {
		w.Logf("user: creates %s", shownOwner(obj))
	}
}

func shownOwner(obj *v1beta1.AdvancedCronJob) string {
	limit := func(n *int32) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	deadline := ""
	if obj.Spec.StartingDeadlineSeconds != nil {
		deadline = fmt.Sprintf(" within %ds", *obj.Spec.StartingDeadlineSeconds)
	}
	return fmt.Sprintf("%s: %q %q %s%s, keeps %s and %s, paused %t", obj.Name, obj.Spec.Schedule, ptr.Deref(obj.Spec.TimeZone, ""), obj.Spec.ConcurrencyPolicy, deadline,
		limit(obj.Spec.SuccessfulJobsHistoryLimit), limit(obj.Spec.FailedJobsHistoryLimit), obj.Spec.Paused != nil && *obj.Spec.Paused)
}

// edit sets all fields except the schedule to random values.
func (w *story) edit(obj *v1beta1.AdvancedCronJob) {
	spec := &obj.Spec
	spec.ConcurrencyPolicy = []v1beta1.ConcurrencyPolicy{"Allow", "Forbid", "Replace", ""}[w.Rand().IntN(4)]
	spec.StartingDeadlineSeconds, spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = nil, nil, nil
	if w.Chance(30) {
		spec.StartingDeadlineSeconds = new(int64(w.Rand().IntN(20)))
	}
	if w.Chance(70) {
		spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit = new(int32(w.Rand().IntN(3))), new(int32(w.Rand().IntN(3)))
	}
}

// editTimes sets some or all of the schedule fields to random values; the scheduled time may already have passed.
func (w *story) editTimes(obj *v1beta1.AdvancedCronJob) {
	spec, some := &obj.Spec, w.Rand().IntN(5)
	if some < 3 {
		minute := time.Now().Add(time.Duration(w.Rand().IntN(5)-2) * time.Minute).Minute()
		spec.Schedule = []string{
			"@every 3s", "@every 10s", "@every 30s", "* * * * *", "*/5 * * * *", "CRON_TZ=Asia/Kathmandu * * * * *", "0 0 31 2 *", "junk",
			fmt.Sprintf("%d * * * *", minute), fmt.Sprintf("%d * * * *", (minute+45)%60),
		}[w.Rand().IntN(10)]
	}
	if some == 0 || some == 3 {
		spec.TimeZone = nil
		if w.Chance(50) && !strings.Contains(spec.Schedule, "TZ") {
			spec.TimeZone = new("Asia/Kathmandu") // at full hours in Kathmandu, it is a quarter past in UTC
		}
	}
	if some == 0 || some == 4 {
		spec.Paused = nil
		if w.Chance(20) {
			spec.Paused = new(true)
		}
	}
}

// users makes a random change as a user.
func (w *story) users() {
	name := names()[w.Rand().IntN(3)]
	switch n := w.Rand().IntN(40); {
	case n >= 24:
		d := []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, time.Minute}[w.Rand().IntN(4)]
		w.Logf("time passes: %v", d)
		w.Sleep(d)
	case n < 1:
		w.deleteOrCreate(name)
	case n < 5:
		w.change(name)
	case n < 12:
		w.endJob()
	case n < 16:
		w.touchJob()
	case n < 17:
		w.takeName(name)
	case n < 20:
		w.makeJob(name)
	case n < 21:
		w.full = !w.full
		w.Logf("the quota for jobs is used up: %t", w.full)
	default:
		w.Logf("garbage is collected: %v", w.Server.CollectGarbage())
	}
}

func (w *story) owner(name string) *v1beta1.AdvancedCronJob {
	obj := &v1beta1.AdvancedCronJob{}
	if w.User.Get(context.Background(), client.ObjectKey{Namespace: "a", Name: name}, obj) != nil {
		return nil
	}
	return obj
}

func (w *story) deleteOrCreate(name string) {
	obj := w.owner(name)
	if obj == nil {
		w.create(name)
		return
	}
	w.Logf("user: deletes %s", name)
	w.must(w.User.Delete(context.Background(), obj))
}

func (w *story) change(name string) {
	obj := w.owner(name)
	if obj == nil {
		return
	}
	if w.Chance(50) {
		w.edit(obj)
	}
	w.editTimes(obj)
	w.update(obj)
}

// change is a schedule change that controllers can see: the schedule differs from the recorded schedule.
type change struct {
	generation int64
	made       time.Time
	said       [3]string
}

// update writes an object that a user has changed.
func (w *story) update(obj *v1beta1.AdvancedCronJob) {
	w.Logf("user: changes %s", shownOwner(obj))
	before := w.owner(obj.Name)
	w.must(w.User.Update(context.Background(), obj))
	said := times(&obj.Spec)
	was := obj.Status.ObservedSchedule
	if was == nil || said == times(&before.Spec) {
		return
	}
	made := time.Now().Truncate(time.Second)
	if said == timesNoted(was) { // the schedule has been changed back before a controller recorded the change
		made = ptr.Deref(was.Since, metav1.Time{}).Time
	}
	w.changed[obj.UID] = append(w.changed[obj.UID], change{obj.Generation, made, said})
}

// times returns the schedule fields.
func times(spec *v1beta1.AdvancedCronJobSpec) [3]string {
	return [3]string{spec.Schedule, ptr.Deref(spec.TimeZone, ""), fmt.Sprint(ptr.Deref(spec.Paused, false))}
}

func timesNoted(noted *v1beta1.ObservedSchedule) [3]string {
	return [3]string{noted.Schedule, noted.TimeZone, fmt.Sprint(noted.Paused)}
}

// jobs returns copies of all jobs of both kinds.
func (w *story) jobs() (out []client.Object) {
	for _, found := range faultapi.All[*batchv1.Job](w.Server) {
		out = append(out, found.DeepCopy())
	}
	for _, found := range faultapi.All[*v1beta1.BroadcastJob](w.Server) {
		out = append(out, found.DeepCopy())
	}
	return out
}

// anyJob returns a random job for which wanted returns true, or nil.
func (w *story) anyJob(wanted func(advancedcronjob.Run) bool) client.Object {
	jobs := slices.DeleteFunc(w.jobs(), func(job client.Object) bool {
		run, _ := advancedcronjob.Read(job)
		return !wanted(run)
	})
	if len(jobs) == 0 {
		return nil
	}
	return jobs[w.Rand().IntN(len(jobs))]
}

func isActive(r advancedcronjob.Run) bool { return r.State == advancedcronjob.Active }

// endJob ends a random job as the controllers of jobs do.
func (w *story) endJob() {
	job := w.anyJob(isActive)
	if job == nil {
		return
	}
	run, _ := advancedcronjob.Read(job)
	if run.Began.IsZero() && w.Chance(50) {
		w.Logf("%s begins", job.GetName())
		w.setStatus(job, "")
		return
	}
	condition := []string{"Complete", "Failed"}[w.Rand().IntN(2)]
	w.Logf("%s ends: %s", job.GetName(), condition)
	w.setStatus(job, condition)
}

// setStatus makes a job begin, or end with a condition. A job may end without having begun.
func (w *story) setStatus(job client.Object, condition string) {
	now := metav1.Now()
	switch job := job.(type) {
	case *batchv1.Job:
		if condition == "" {
			job.Status.StartTime = &now
		} else {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobConditionType(condition), Status: corev1.ConditionTrue}}
		}
	case *v1beta1.BroadcastJob:
		if condition == "" {
			job.Status.StartTime = &now
		} else {
			job.Status.Conditions = []v1beta1.JobCondition{{Type: v1beta1.JobConditionType(condition), Status: corev1.ConditionTrue}}
		}
	}
	w.must(w.User.Status().Update(context.Background(), job))
}

// touchJob deletes a job, blocks its deletion, or removes its annotation.
func (w *story) touchJob() {
	job := w.anyJob(func(advancedcronjob.Run) bool { return true })
	if job == nil {
		return
	}
	switch n := w.Rand().IntN(4); {
	case n == 0:
		job.SetAnnotations(nil)
		w.Logf("user: takes the annotations of %s away", job.GetName())
		w.must(w.User.Update(context.Background(), job))
	case n == 1 && job.GetDeletionTimestamp() == nil:
		job.SetFinalizers([]string{"test/held"})
		w.Logf("user: holds the deletion of %s up", job.GetName())
		w.must(w.User.Update(context.Background(), job))
		if w.Chance(60) {
			w.Logf("user: deletes %s", job.GetName())
			w.must(w.User.Delete(context.Background(), job))
		}
	case n == 2 && len(job.GetFinalizers()) > 0:
		w.letGo(job)
	case job.GetDeletionTimestamp() == nil:
		w.Logf("user: deletes %s", job.GetName())
		w.noteLoss(job)
		w.must(w.User.Delete(context.Background(), job))
	}
}

func (w *story) letGo(job client.Object) {
	job.SetFinalizers(nil)
	w.Logf("nobody holds the deletion of %s up any more", job.GetName())
	w.noteLoss(job)
	w.must(client.IgnoreNotFound(w.User.Update(context.Background(), job)))
}

// noteLoss remembers a job that was deleted before its start was recorded.
func (w *story) noteLoss(job client.Object) {
	run, _ := advancedcronjob.Read(job)
	ref := metav1.GetControllerOfNoCopy(job)
	if ref == nil {
		return
	}
	if owner := w.owner(ref.Name); owner == nil || owner.Status.LastScheduleTime == nil || owner.Status.LastScheduleTime.Time.Before(run.Slot) {
		w.lost[string(ref.UID)+"/"+job.GetName()] = true
	}
}

// next returns the time of the next start of an AdvancedCronJob, or zero.
func next(owner *v1beta1.AdvancedCronJob, now time.Time) time.Time {
	when, err := schedule.Parse(owner.Spec.Schedule, owner.Spec.TimeZone, time.UTC)
	if err != nil {
		return time.Time{}
	}
	return when.Due(window(owner, now)).Next
}

func window(owner *v1beta1.AdvancedCronJob, now time.Time) schedule.Window {
	w := schedule.Window{Created: owner.CreationTimestamp.Time, Now: now}
	if owner.Status.LastScheduleTime != nil {
		w.Last = owner.Status.LastScheduleTime.Time
	}
	return w
}

// takeName creates a job of another owner with the name of the next run.
func (w *story) takeName(name string) {
	owner := w.owner(name)
	if owner == nil || next(owner, time.Now()).IsZero() {
		return
	}
	job := w.empty(owner, api.JobName(name, next(owner, time.Now())))
	if w.User.Create(context.Background(), job) == nil {
		w.byUser[job.GetUID()], w.taken[job.GetName()] = true, true
		w.Logf("user: creates a foreign %T %s", job, job.GetName())
	}
}

func (w *story) empty(owner *v1beta1.AdvancedCronJob, name string) client.Object {
	meta := metav1.ObjectMeta{Namespace: "a", Name: name}
	if owner.Spec.Template.JobTemplate != nil {
		return &batchv1.Job{ObjectMeta: meta}
	}
	return &v1beta1.BroadcastJob{ObjectMeta: meta}
}

// makeJob creates a job as a user, with an AdvancedCronJob in the older API version as its controller.
func (w *story) makeJob(name string) {
	owner := w.owner(name)
	if owner == nil {
		return
	}
	job := w.empty(owner, fmt.Sprintf("%s-manual-%d", name, w.Rand().IntN(100)))
	job.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "AdvancedCronJob"})})
	if w.User.Create(context.Background(), job) == nil {
		w.byUser[job.GetUID()] = true
		w.Logf("user: creates %T %s for %s", job, job.GetName(), name)
	}
}

// outside ends or deletes jobs, and completes deletions, each 5 seconds after its beginning. By then the controller
// has no other work, so only the event of the job can wake the controller.
func (w *story) outside() (changed bool) {
	const while = 5 * time.Second
	for _, job := range w.jobs() {
		run, _ := advancedcronjob.Read(job)
		switch deleted := job.GetDeletionTimestamp(); {
		case deleted != nil && time.Since(deleted.Time) > while:
			w.letGo(job)
		case deleted == nil && isActive(run) && time.Since(job.GetCreationTimestamp().Time) > while && w.Chance(50):
			w.Logf("user: deletes %s, which goes on", job.GetName())
			w.noteLoss(job)
			w.must(w.User.Delete(context.Background(), job))
		case deleted == nil && isActive(run) && time.Since(job.GetCreationTimestamp().Time) > while:
			w.Logf("%s ends well", job.GetName())
			w.setStatus(job, "Complete")
		default:
			continue
		}
		changed = true
	}
	return w.Server.CollectGarbage() || changed
}

// settle edits the schedules so that each AdvancedCronJob is due once within the next minutes, and then not for most
// of a year.
func (w *story) settle() {
	w.full, w.due = false, map[types.UID]time.Time{}
	for _, name := range names() {
		if w.owner(name) == nil {
			w.create(name)
		}
		obj := w.owner(name)
		slot := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
		obj.Spec.Schedule = fmt.Sprintf("%d %d %d %d *", slot.Minute(), slot.Hour(), slot.Day(), slot.Month())
		obj.Spec.StartingDeadlineSeconds, obj.Spec.TimeZone, obj.Spec.Paused = nil, nil, nil
		w.update(obj)
		w.due[obj.UID] = slot
	}
}

// denies refuses new jobs while the quota is used up.
func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if w.full && call.Verb == "create" && strings.HasSuffix(call.Resource.Resource, "jobs") {
		return apierrors.NewForbidden(call.Resource, call.Name, fmt.Errorf("exceeded quota"))
	}
	return nil
}
