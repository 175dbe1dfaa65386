package advancedcronjob

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
)

// moment returns a time of day on the first of March 2026.
func moment(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04:05", "2026-03-01 "+text)
	if err != nil {
		panic(err)
	}
	return at.UTC()
}

// hourly returns an AdvancedCronJob that was created at half past midnight.
func hourly(edits ...func(*v1beta1.AdvancedCronJob)) *v1beta1.AdvancedCronJob {
	obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "hourly", UID: "u", CreationTimestamp: metav1.NewTime(moment("00:30:00")),
	}}
	obj.Spec.Schedule = "0 * * * *"
	obj.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func policy(p v1beta1.ConcurrencyPolicy) func(*v1beta1.AdvancedCronJob) {
	return func(obj *v1beta1.AdvancedCronJob) { obj.Spec.ConcurrencyPolicy = p }
}

func stored(at string) func(*v1beta1.AdvancedCronJob) {
	return func(obj *v1beta1.AdvancedCronJob) { obj.Status.LastScheduleTime = &metav1.Time{Time: moment(at)} }
}

func limits(succeeded, failed int32) func(*v1beta1.AdvancedCronJob) {
	return func(obj *v1beta1.AdvancedCronJob) {
		obj.Spec.SuccessfulJobsHistoryLimit, obj.Spec.FailedJobsHistoryLimit = &succeeded, &failed
	}
}

// job returns the Job of hourly for a slot.
func job(slot string, edits ...func(*batchv1.Job)) *batchv1.Job {
	name := fmt.Sprintf("hourly-%d", moment(slot).Unix())
	out := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "7",
		Annotations:     map[string]string{apps.AnnotationScheduledAt: moment(slot).Format(time.RFC3339)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(hourly(), v1beta1.GroupVersion.WithKind("AdvancedCronJob"))},
	}}
	for _, edit := range edits {
		edit(out)
	}
	return out
}

func jobEnded(condition batchv1.JobConditionType) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: "Suspended", Status: "True"}, {Type: condition, Status: corev1.ConditionTrue}}
	}
}

func began(at string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: moment(at)} }
}

func ending(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: moment("00:00:00")} }

// did is a decision as texts.
type did struct {
	Last, Slot, Next, Missed, Why string
	Active, Trim, Replace         []string
}

func shownDecision(d decision) (out did) {
	text := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format("15:04:05")
	}
	if d.Status.LastScheduleTime != nil {
		out.Last = text(d.Status.LastScheduleTime.Time)
	}
	out.Slot, out.Next, out.Why = text(d.Slot), text(d.Due.Next), string(d.Why.Code)
	if !d.Due.Missed.IsZero() {
		out.Missed = d.Due.Missed.String()
	}
	slots := func(runs []Run) (out []string) {
		for i := range runs {
			out = append(out, text(runs[i].Slot))
		}
		return out
	}
	for i := range d.Status.Active {
		out.Active = append(out.Active, d.Status.Active[i].Name[len("hourly-"):])
	}
	out.Trim, out.Replace = slots(d.Trim), slots(d.Replace)
	return out
}

func unix(slots ...string) (out []string) {
	for _, slot := range slots {
		out = append(out, fmt.Sprint(moment(slot).Unix()))
	}
	return out
}

func TestDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		owner *v1beta1.AdvancedCronJob
		jobs  []*batchv1.Job
		known known
		now   string
		want  did
	}{
		"AC-12: nothing yet": {owner: hourly(), now: "00:59:59", want: did{Next: "01:00:00"}},
		"AC-12: the first":   {owner: hourly(), now: "01:00:00", want: did{Slot: "01:00:00", Next: "02:00:00"}},
		"AC-12: started": {
			owner: hourly(), jobs: []*batchv1.Job{job("01:00:00")}, now: "01:00:01",
			want: did{Last: "01:00:00", Active: unix("01:00:00"), Next: "02:00:00"},
		},
		"AC-12: started, and the cache is late": {
			owner: hourly(), known: known{Started: moment("01:00:00")}, now: "01:00:01", want: did{Last: "01:00:00", Next: "02:00:00"},
		},
		"AC-12: the newest of those that were missed": {
			owner: hourly(stored("01:00:00")), now: "04:10:00", want: did{Last: "01:00:00", Slot: "04:00:00", Next: "05:00:00", Missed: "2"},
		},
		"AC-10: what is stored stays when jobs are gone": {owner: hourly(stored("03:00:00")), now: "03:10:00", want: did{Last: "03:00:00", Next: "04:00:00"}},
		"AC-10: a job that is newer than what is stored": {
			owner: hourly(stored("01:00:00")), jobs: []*batchv1.Job{job("03:00:00", jobEnded("Complete"))}, now: "03:10:00", want: did{Last: "03:00:00", Next: "04:00:00"},
		},
		"AC-10: an annotation that somebody has changed": {
			owner: hourly(), jobs: []*batchv1.Job{job("03:00:00", jobEnded("Complete"), func(j *batchv1.Job) {
				j.Annotations[apps.AnnotationScheduledAt] = "2026-03-01T23:00:00Z"
			})}, now: "03:10:00", want: did{Last: "03:00:00", Next: "04:00:00"},
		},
		"AC-10: a job of another name, with the annotation": {
			owner: hourly(), jobs: []*batchv1.Job{job("02:00:00", jobEnded("Complete"), func(j *batchv1.Job) {
				j.Name, j.Annotations[apps.AnnotationScheduledAt] = "once", "2026-03-01T05:00:00+02:00"
			})}, now: "03:10:00", want: did{Last: "03:00:00", Next: "04:00:00"},
		},
		"AC-10: an annotation that makes no sense is skipped": {
			owner: hourly(), jobs: []*batchv1.Job{job("02:00:00", jobEnded("Complete"), func(j *batchv1.Job) {
				j.Name, j.Annotations[apps.AnnotationScheduledAt] = "once", "yesterday"
			})}, now: "00:59:00", want: did{Next: "01:00:00"},
		},
		"a clock that went back starts nothing twice":         {owner: hourly(stored("08:00:00")), now: "03:10:00", want: did{Last: "08:00:00", Next: "09:00:00", Why: "RunAhead"}},
		"a clock that another process's is a little ahead of": {owner: hourly(stored("04:00:00")), now: "03:59:30", want: did{Last: "04:00:00", Next: "05:00:00"}},
		"a slot of another year does not stop the schedule": {
			owner: hourly(func(obj *v1beta1.AdvancedCronJob) {
				obj.Status.LastScheduleTime = &metav1.Time{Time: moment("00:00:00").AddDate(10, 0, 0)}
			}), now: "03:10:00", want: did{Last: "03:10:00", Next: "04:00:00"},
		},
		"a job that claims to be of another year": {
			owner: hourly(stored("03:00:00")), jobs: []*batchv1.Job{job("03:00:00", jobEnded("Complete"), func(j *batchv1.Job) { j.Name = "hourly-9999999999" })},
			now: "03:10:00", want: did{Last: "03:00:00", Next: "04:00:00"},
		},
		"AC-13: too late": {
			owner: hourly(stored("01:00:00"), func(obj *v1beta1.AdvancedCronJob) { obj.Spec.StartingDeadlineSeconds = new(int64(60)) }), now: "03:02:00",
			want: did{Last: "01:00:00", Next: "04:00:00", Missed: "2", Why: "TooLate"},
		},
		"AC-11: paused": {
			owner: hourly(stored("01:00:00"), limits(0, 0), func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Paused = new(true) }),
			jobs:  []*batchv1.Job{job("01:00:00", jobEnded("Complete"))}, now: "03:10:00", want: did{Last: "01:00:00", Trim: []string{"01:00:00"}},
		},
		"AC-14: Allow": {
			owner: hourly(), jobs: []*batchv1.Job{job("01:00:00")}, now: "02:00:00",
			want: did{Last: "01:00:00", Active: unix("01:00:00"), Slot: "02:00:00", Next: "03:00:00"},
		},
		"AC-14: Forbid waits": {
			owner: hourly(policy(v1beta1.ForbidConcurrent)), jobs: []*batchv1.Job{job("01:00:00")}, now: "02:00:00",
			want: did{Last: "01:00:00", Active: unix("01:00:00"), Next: "03:00:00", Why: "RunActive"},
		},
		"AC-14: Forbid waits for one that is being deleted": {
			owner: hourly(policy(v1beta1.ForbidConcurrent)), jobs: []*batchv1.Job{job("01:00:00", ending)}, now: "02:00:00",
			want: did{Last: "01:00:00", Active: unix("01:00:00"), Next: "03:00:00", Why: "RunActive"},
		},
		"AC-14: Forbid runs late": {
			owner: hourly(policy(v1beta1.ForbidConcurrent)), jobs: []*batchv1.Job{job("02:00:00", jobEnded("Complete"))}, now: "03:20:00",
			want: did{Last: "02:00:00", Slot: "03:00:00", Next: "04:00:00"},
		},
		"AC-14: Forbid runs the newest late": {
			owner: hourly(policy(v1beta1.ForbidConcurrent)), jobs: []*batchv1.Job{job("02:00:00", jobEnded("Failed"))}, now: "05:20:00",
			want: did{Last: "02:00:00", Slot: "05:00:00", Next: "06:00:00", Missed: "2"},
		},
		"AC-14: Replace deletes first": {
			owner: hourly(policy(v1beta1.ReplaceConcurrent)), jobs: []*batchv1.Job{job("01:00:00"), job("02:00:00")}, now: "03:00:00",
			want: did{Last: "02:00:00", Active: unix("01:00:00", "02:00:00"), Replace: []string{"01:00:00", "02:00:00"}, Next: "04:00:00", Why: "RunReplaced"},
		},
		"AC-14: Replace starts when they are on their way out": {
			owner: hourly(policy(v1beta1.ReplaceConcurrent)), jobs: []*batchv1.Job{job("02:00:00", ending)}, now: "03:00:00",
			want: did{Last: "02:00:00", Active: unix("02:00:00"), Slot: "03:00:00", Next: "04:00:00"},
		},
		"AC-14: Replace deletes nothing before the next slot": {
			owner: hourly(policy(v1beta1.ReplaceConcurrent)), jobs: []*batchv1.Job{job("02:00:00")}, now: "02:59:00",
			want: did{Last: "02:00:00", Active: unix("02:00:00"), Next: "03:00:00"},
		},
		"AC-15: a name that is taken": {
			owner: hourly(), known: known{Refused: moment("01:00:00")}, now: "01:10:00", want: did{Next: "02:00:00", Why: "RunNameTaken"},
		},
		"AC-15: and the slot after it": {
			owner: hourly(), known: known{Refused: moment("01:00:00"), Told: moment("01:00:00")}, now: "02:00:00", want: did{Slot: "02:00:00", Next: "03:00:00"},
		},
		"AC-11: history, the oldest by their start, those without one first": {
			owner: hourly(limits(1, 1)), jobs: []*batchv1.Job{
				job("01:00:00", jobEnded("Complete"), began("06:00:00")), job("02:00:00", jobEnded("Complete"), began("02:00:01")), job("03:00:00", jobEnded("Complete")),
				job("04:00:00", jobEnded("Failed"), began("04:00:00")), job("05:00:00", jobEnded("Failed"), began("05:00:00")), job("06:00:00", began("06:00:00")),
			}, now: "06:10:00",
			want: did{Last: "06:00:00", Active: unix("06:00:00"), Trim: []string{"02:00:00", "03:00:00", "04:00:00"}, Next: "07:00:00"},
		},
		"AC-11: defaults of a history": {
			owner: hourly(), jobs: []*batchv1.Job{
				job("01:00:00", jobEnded("Complete")), job("02:00:00", jobEnded("Complete")), job("03:00:00", jobEnded("Complete")), job("04:00:00", jobEnded("Complete")),
				job("05:00:00", jobEnded("Failed")), job("06:00:00", jobEnded("Failed")),
			}, now: "06:10:00",
			want: did{Last: "06:00:00", Trim: []string{"01:00:00", "05:00:00"}, Next: "07:00:00"},
		},
		"AC-11: no history": {
			owner: hourly(limits(0, 0)), jobs: []*batchv1.Job{job("01:00:00", jobEnded("Complete")), job("02:00:00", jobEnded("Failed"), ending)}, now: "02:10:00",
			want: did{Last: "02:00:00", Trim: []string{"01:00:00"}, Next: "03:00:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var runs []Run
			for _, j := range tt.jobs {
				run, ok := Read(j)
				if !ok {
					t.Fatal("a Job is no run")
				}
				runs = append(runs, run)
			}
			when, err := schedule.Parse(tt.owner.Spec.Schedule, nil, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, shownDecision(decide(tt.owner, runs, when, tt.known, moment(tt.now)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecideStatus: references in the status are not changed, and the type matches the template.
func TestDecideStatus(t *testing.T) {
	old := corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: job("01:00:00").Name, UID: job("01:00:00").UID, ResourceVersion: "5"}
	owner := hourly(func(obj *v1beta1.AdvancedCronJob) { obj.Status.Active = []corev1.ObjectReference{old} })
	var runs []Run
	for _, j := range []*batchv1.Job{job("02:00:00"), job("01:00:00")} {
		run, _ := Read(j)
		runs = append(runs, run)
	}
	broadcast := &v1beta1.BroadcastJob{ObjectMeta: job("03:00:00").ObjectMeta}
	run, ok := Read(broadcast)
	if runs = append(runs, run); !ok {
		t.Fatal("a BroadcastJob is no run")
	}
	got := decide(owner, runs, nil, known{}, moment("03:10:00"))
	want := v1beta1.AdvancedCronJobStatus{Type: v1beta1.JobTemplate, ObservedSchedule: &v1beta1.ObservedSchedule{Schedule: "0 * * * *"}, LastScheduleTime: &metav1.Time{Time: time.Unix(moment("03:00:00").Unix(), 0)}, Active: []corev1.ObjectReference{
		old,
		{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: job("02:00:00").Name, UID: job("02:00:00").UID, ResourceVersion: "7"},
		{APIVersion: "apps.kruise.io/v1beta1", Kind: "BroadcastJob", Namespace: "shop", Name: broadcast.Name, UID: broadcast.UID, ResourceVersion: "7"},
	}}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Slot.IsZero() == false || len(got.Trim) > 0 {
		t.Errorf("without a schedule: %+v", got)
	}
	for _, c := range []struct {
		template v1beta1.CronJobTemplate
		want     v1beta1.AdvancedCronJobTemplateType
	}{
		{v1beta1.CronJobTemplate{JobTemplate: &batchv1.JobTemplateSpec{}, BroadcastJobTemplate: &v1beta1.BroadcastJobTemplateSpec{}}, "Job"},
		{v1beta1.CronJobTemplate{ImageListPullJobTemplate: &v1beta1.ImageListPullJobTemplateSpec{}, BroadcastJobTemplate: &v1beta1.BroadcastJobTemplateSpec{}}, "ImageListPullJob"},
		{v1beta1.CronJobTemplate{BroadcastJobTemplate: &v1beta1.BroadcastJobTemplateSpec{}}, "BroadcastJob"},
		{v1beta1.CronJobTemplate{}, ""},
	} {
		owner.Spec.Template = c.template
		if got := decide(owner, nil, nil, known{}, moment("03:10:00")); got.Status.Type != c.want {
			t.Errorf("AC-6: %s, want %s", got.Status.Type, c.want)
		}
	}
}

// TestStarted: the status returned by the method Started contains the run and its slot. The decision's field Status
// stays unchanged.
func TestStarted(t *testing.T) {
	first, _ := Read(job("01:00:00"))
	when, err := schedule.Parse(hourly().Spec.Schedule, nil, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	d := decide(hourly(), []Run{first}, when, known{}, moment("02:00:00"))
	before := *d.Status.DeepCopy()
	second, _ := Read(job("02:00:00"))
	got := d.Started(second)
	if len(got.Active) != 2 || got.Active[1].Name != second.GetName() || !got.LastScheduleTime.Time.Equal(moment("02:00:00")) || got.Type != v1beta1.JobTemplate {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(before, d.Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeepJob(t *testing.T) {
	full := job("01:00:00", jobEnded("Complete"), began("01:00:01"))
	full.Annotations["other"], full.ManagedFields = "x", []metav1.ManagedFieldsEntry{{}}
	full.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a"}}
	full.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}}
	want, _ := Read(full)
	small := &batchv1.Job{}
	keepJob(small, full.DeepCopy())
	if len(small.Spec.Template.Spec.Containers) > 0 || small.ManagedFields != nil || small.Status.UncountedTerminatedPods != nil || len(small.Annotations) != 1 {
		t.Errorf("kept: %+v", small)
	}
	got, _ := Read(small)
	got.Object, want.Object = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	small.Annotations = map[string]string{"read": "by another kind"}
	if keepJob(small, full.DeepCopy()); len(small.Annotations) != 2 {
		t.Errorf("what another kind reads is gone: %v", small.Annotations)
	}
}

// TestClockPutRight: if a run was started while the clock was years ahead, the next runs are started as soon as the
// clock is right again.
func TestClockPutRight(t *testing.T) {
	ahead := moment("03:00:00").AddDate(1, 0, 0)
	owner := hourly()
	owner.Status.LastScheduleTime = &metav1.Time{Time: ahead}
	known := known{Started: ahead, Told: ahead}
	when, err := schedule.Parse(owner.Spec.Schedule, nil, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ now, last, slot string }{{"01:10:00", "01:10:00", ""}, {"01:20:00", "01:10:00", ""}, {"02:00:01", "01:10:00", "02:00:00"}} {
		d := decide(owner, nil, when, known, moment(step.now))
		if got := d.Status.LastScheduleTime; got == nil || !got.Time.Equal(moment(step.last)) {
			t.Errorf("%s: last is %v, want %s", step.now, got, step.last)
		}
		if want := step.slot; want == "" && !d.Slot.IsZero() || want != "" && !d.Slot.Equal(moment(want)) {
			t.Errorf("%s: starts %v, want %q", step.now, d.Slot, want)
		}
		owner.Status = d.Status
	}
}

// TestTrimWithoutLimits: if the history limits are invalid, all ended runs are deleted, and the decision does not
// fail.
func TestTrimWithoutLimits(t *testing.T) {
	when, err := schedule.Parse("0 * * * *", nil, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	run, _ := Read(job("01:00:00", jobEnded(batchv1.JobComplete)))
	if d := decide(hourly(limits(-1, -1)), []Run{run}, when, known{}, moment("01:30:00")); len(d.Trim) != 1 {
		t.Errorf("%+v", d.Trim)
	}
}
