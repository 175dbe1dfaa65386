package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// bench is an API server in memory with a clock that the test sets.
type bench struct {
	t        *testing.T
	scheme   *runtime.Scheme
	server   *faultapi.Server
	user     *faultapi.Client
	clock    *testingclock.FakePassiveClock
	registry *prometheus.Registry
	metrics  *metrics.Controller
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, scheme: runtime.NewScheme(), registry: prometheus.NewRegistry()}
	b.clock = testingclock.NewFakePassiveClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	b.must(errors.Join(clientgoscheme.AddToScheme(b.scheme), v1beta1.AddToScheme(b.scheme)))
	var err error
	b.server, err = faultapi.New(b.scheme, b.clock.Now, &v1beta1.AdvancedCronJob{}, &batchv1.Job{}, &v1beta1.BroadcastJob{}, &v1beta1.ImageListPullJob{})
	b.must(err)
	b.metrics, err = runs().Metrics(b.registry, "advancedcronjob")
	b.must(err)
	b.user = b.server.Client(nil, nil)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// count returns how many runs with the given outcome the metric has counted.
func (b *bench) count(outcome string) (n int) {
	families, err := b.registry.Gather()
	b.must(err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetValue() == outcome {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

// process is a process with the controller.
type process struct {
	*bench

	cache  *faultapi.Cache
	r      *Reconciler
	events *record.FakeRecorder
	noting sync.Mutex
	calls  []string
	fails  map[string]error // errors with which calls fail, by verb
}

// loans is a manager with only the methods that the controller uses.
type loans struct {
	process *process
	add     *[]manager.Runnable
}

func (l loans) GetCache() cache.Cache    { return l.process.cache }
func (l loans) GetClient() client.Client { return l.process.server.Client(l.process, l.process.cache) }

func (l loans) GetAPIReader() client.Reader                     { return l.process.server.Client(l.process, nil) }
func (l loans) GetScheme() *runtime.Scheme                      { return l.process.scheme }
func (l loans) GetEventRecorderFor(string) record.EventRecorder { return l.process.events }
func (l loans) Add(r manager.Runnable) error                    { *l.add = append(*l.add, r); return nil }

// Pass records the calls.
func (p *process) Pass(_ context.Context, call faultapi.Call) faultapi.Fate {
	p.noting.Lock()
	defer p.noting.Unlock()
	p.calls = append(p.calls, call.Verb+" "+call.Resource.Resource+" "+call.Name)
	return faultapi.Fate{Before: p.fails[call.Verb]}
}

// boot starts a process with a current cache.
func (b *bench) boot() *process {
	b.t.Helper()
	p := &process{bench: b, cache: b.server.Cache(func(string, int) int { return 0 }), events: record.NewFakeRecorder(100000), fails: map[string]error{}}
	var runnables []manager.Runnable
	mgr := loans{p, &runnables}
	var err error
	p.r, err = newReconciler(b.t.Context(), mgr, mgr.GetClient(), Options{Clock: b.clock, Metrics: b.metrics})
	b.must(err)
	p.see()
	for _, r := range runnables {
		b.must(r.Start(b.t.Context()))
	}
	return p
}

// see brings the cache up to date.
func (p *process) see() {
	for _, resource := range p.cache.Resources() {
		p.cache.Deliver(resource, p.cache.Behind(resource))
		p.cache.Bookmark(resource)
	}
}

// pass reconciles an AdvancedCronJob once.
func (p *process) pass(name string) ctrl.Result {
	p.t.Helper()
	result, err := p.r.Reconcile(p.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "a", Name: name}})
	p.must(err)
	return result
}

// rest reconciles until nothing is written any more.
func (p *process) rest(name string) (result ctrl.Result) {
	p.t.Helper()
	for before := int64(-1); before != p.server.Version(); {
		before = p.server.Version()
		p.see()
		result = p.pass(name)
	}
	return result
}

// told returns the events since the last call of told, each with its type and reason.
func (p *process) told() (out []string) {
	for {
		select {
		case event := <-p.events.Events:
			words := strings.Fields(event)
			out = append(out, words[1])
		default:
			return out
		}
	}
}

func (b *bench) create(name, when string, edits ...func(*v1beta1.AdvancedCronJob)) *v1beta1.AdvancedCronJob {
	b.t.Helper()
	obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	obj.Spec.Schedule = when
	obj.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{}
	for _, edit := range edits {
		edit(obj)
	}
	b.must(b.user.Create(b.t.Context(), obj))
	return obj
}

func (b *bench) end(job *batchv1.Job, condition batchv1.JobConditionType) {
	job = job.DeepCopy()
	job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
	b.must(b.user.Status().Update(b.t.Context(), job))
}

func (b *bench) jobs() []*batchv1.Job { return faultapi.All[*batchv1.Job](b.server) }

// TestManySchedules runs 1,000 schedules, each due every minute, for ten minutes: with a process that a second
// process replaces, with two leaders at the same time, and for a while without any process. Each slot is started
// once, or counted as missed.
func TestManySchedules(t *testing.T) {
	const owners, minutes = 1000, 10
	b, dice := newBench(t), rand.New(rand.NewPCG(1, 2))
	names := make([]string, owners)
	for i := range names {
		names[i] = fmt.Sprintf("minutely-%d", i)
		b.create(names[i], "* * * * *")
	}
	var processes []*process
	for minute := 1; minute <= minutes; minute++ {
		b.clock.SetTime(b.clock.Now().Truncate(time.Minute).Add(time.Minute + time.Duration(dice.IntN(30))*time.Second))
		switch minute {
		case 1, 3: // the first process, and then the second process
			processes = []*process{b.boot()}
		case 4: // both processes believe that they lead
			processes = append(processes, b.boot())
		case 6, 7: // no process runs
			processes = nil
		case 8:
			processes = []*process{b.boot()}
		}
		for _, p := range processes { // both processes decide before the first process acts
			p.see()
		}
		for _, i := range dice.Perm(owners) {
			for _, p := range processes {
				p.pass(names[i])
			}
		}
		for _, job := range b.jobs() {
			if len(job.Status.Conditions) == 0 && dice.IntN(2) == 0 {
				b.end(job, []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[dice.IntN(2)])
			}
		}
		for range 3 { // ended runs are deleted from the history, and no run is started again
			for _, p := range processes {
				p.see()
				for _, name := range names {
					p.pass(name)
				}
			}
		}
	}
	started := map[string]int{}
	for _, event := range b.server.Events(&batchv1.Job{}) {
		if event.Type == "ADDED" {
			started[event.Object.GetName()]++
		}
	}
	for name, n := range started {
		if n > 1 {
			t.Errorf("%s was started %d times", name, n)
		}
	}
	if want := owners * (minutes - 2); len(started) != want || b.count(outcomeStarted) != want || b.count(outcomeMissed) != 2*owners {
		t.Errorf("%d jobs, %d started, %d missed; want %d, and %d missed", len(started), b.count(outcomeStarted), b.count(outcomeMissed), want, 2*owners)
	}
}

// TestForeignNameIsToldOnce: if an object of another owner has the name of a run, a single event says so. The
// controller does not try to start this run again, and starts the next run.
func TestForeignNameIsToldOnce(t *testing.T) {
	b := newBench(t)
	owner := b.create("minutely", "* * * * *")
	slot := b.clock.Now().Add(time.Minute)
	b.must(b.user.Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("minutely-%d", slot.Unix())}}))
	p := b.boot()
	b.clock.SetTime(slot.Add(time.Second))
	for range 5 {
		p.rest("minutely")
		b.clock.SetTime(b.clock.Now().Add(5 * time.Second))
	}
	creations := slices.DeleteFunc(slices.Clone(p.calls), func(call string) bool { return !strings.HasPrefix(call, "create") })
	if diff := cmp.Diff([]string{"NameTaken", "MissedSchedule"}, p.told()); diff != "" || len(creations) != 1 || b.count(outcomeMissed) != 1 {
		t.Errorf("AC-15: %d creations, %d missed, events (-want +got):\n%s", len(creations), b.count(outcomeMissed), diff)
	}
	b.clock.SetTime(slot.Add(time.Minute))
	p.rest("minutely")
	b.must(b.user.Get(t.Context(), client.ObjectKeyFromObject(owner), owner))
	if len(b.jobs()) != 2 || !owner.Status.LastScheduleTime.Time.Equal(slot.Add(time.Minute)) || b.count(outcomeMissed) != 1 {
		t.Errorf("AC-15: %d jobs, last %v, %d missed", len(b.jobs()), owner.Status.LastScheduleTime, b.count(outcomeMissed))
	}
	if diff := cmp.Diff([]string{"SuccessfulCreate"}, p.told()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOfAnotherGroup: jobs whose owner is an AdvancedCronJob of another API group do not count as runs, and the
// controller does not wait for the deletion of such jobs.
func TestOfAnotherGroup(t *testing.T) {
	owner := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Name: "minutely"}}
	for version, want := range map[string]bool{"apps.kruise.io/v1alpha1": true, "apps.kruise.io/v1beta1": true, "batch.example.test/v1": false, "a/b/c": false} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{
			APIVersion: version, Kind: "AdvancedCronJob", Name: "minutely", UID: "former", Controller: new(true),
		}}}}
		if isLeaving(job, owner) != want {
			t.Errorf("AC-8 of %s: it is to go: %t", version, !want)
		}
	}
}

// TestFormerRunIsWaitedFor: if a run of an earlier AdvancedCronJob of the same name still exists, the slot is started
// after the run was deleted.
func TestFormerRunIsWaitedFor(t *testing.T) {
	b := newBench(t)
	former := b.create("minutely", "* * * * *")
	p := b.boot()
	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	p.rest("minutely")
	b.must(b.user.Delete(t.Context(), former))
	b.clock.SetTime(b.clock.Now().Add(-10 * time.Second))
	next := b.create("minutely", "* * * * *")
	b.clock.SetTime(b.clock.Now().Add(15 * time.Second))
	p.see()
	if _, err := p.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(next)}); err == nil {
		t.Error("the name is free")
	}
	b.server.CollectGarbage()
	p.rest("minutely")
	if jobs := b.jobs(); len(jobs) != 1 || !metav1.IsControlledBy(jobs[0], next) {
		t.Errorf("%+v", jobs)
	}
}

// TestStartedIsRemembered: a started slot is recorded in the status at once. If this write fails, the process still
// remembers the slot.
func TestStartedIsRemembered(t *testing.T) {
	b := newBench(t)
	owner := b.create("minutely", "* * * * *")
	p := b.boot()
	p.rest("minutely")
	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	p.pass("minutely")
	b.must(b.user.Get(t.Context(), client.ObjectKeyFromObject(owner), owner))
	if at := owner.Status.LastScheduleTime; at == nil || !at.Time.Equal(b.clock.Now()) || len(owner.Status.Active) != 1 {
		t.Errorf("AC-10: after the pass that has started it: %+v", owner.Status)
	}
	p.rest("minutely")
	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	p.fails["patch"] = apierrors.NewInternalError(errors.New("injected"))
	if _, err := p.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(owner)}); err == nil {
		t.Error("a status that was not written is no error")
	}
	delete(p.fails, "patch")
	for _, job := range b.jobs() {
		b.must(b.user.Delete(t.Context(), job))
	}
	p.rest("minutely")
	b.must(b.user.Get(t.Context(), client.ObjectKeyFromObject(owner), owner))
	if len(b.jobs()) != 0 || !owner.Status.LastScheduleTime.Time.Equal(b.clock.Now()) {
		t.Errorf("AC-10: %d jobs, %+v", len(b.jobs()), owner.Status)
	}
}

// TestEachIsToldOnce: a single event reports each late, waiting or missed slot, and each invalid spec. A
// reconciliation with nothing to do sends no request.
func TestEachIsToldOnce(t *testing.T) {
	b := newBench(t)
	b.create("forbid", "* * * * *", func(obj *v1beta1.AdvancedCronJob) { obj.Spec.ConcurrencyPolicy = v1beta1.ForbidConcurrent })
	b.create("late", "0 * * * *", func(obj *v1beta1.AdvancedCronJob) { obj.Spec.StartingDeadlineSeconds = new(int64(30)) })
	b.create("junk", "junk")
	b.create("never", "0 0 31 2 *")
	b.create("images", "@daily", func(obj *v1beta1.AdvancedCronJob) {
		obj.Spec.Template = v1beta1.CronJobTemplate{ImageListPullJobTemplate: &v1beta1.ImageListPullJobTemplateSpec{}}
	})
	b.create("quota", "* * * * *")
	p := b.boot()
	begin := b.clock.Now()
	told := func(after time.Duration, name string, want ...string) {
		t.Helper()
		b.clock.SetTime(begin.Add(after))
		for range 3 {
			p.rest(name)
		}
		if diff := cmp.Diff(want, p.told()); diff != "" {
			t.Errorf("%s after %s (-want +got):\n%s", name, after, diff)
		}
	}
	told(time.Minute, "forbid", "SuccessfulCreate")
	told(2*time.Minute, "forbid", "JobAlreadyActive")
	told(5*time.Minute, "forbid", "JobAlreadyActive")
	b.end(b.jobs()[0], batchv1.JobFailed)
	told(5*time.Minute+time.Second, "forbid", "SuccessfulCreate", "MissedSchedule")
	if missed := b.count(outcomeMissed); missed != 3 {
		t.Errorf("%d missed, want 3", missed)
	}
	told(61*time.Minute, "late", "MissedSchedule")
	told(62*time.Minute, "late")
	told(62*time.Minute, "junk", "InvalidAdvancedCronJob")
	told(62*time.Minute, "never", "InvalidAdvancedCronJob")
	told(62*time.Minute, "images", "InvalidAdvancedCronJob")
	p.fails["create"] = apierrors.NewForbidden(batchv1.Resource("jobs"), "x", errors.New("exceeded quota"))
	told(62*time.Minute, "quota", "FailedCreate")
	told(62*time.Minute+30*time.Second, "quota")
	delete(p.fails, "create")
	told(62*time.Minute+50*time.Second, "quota", "SuccessfulCreate", "MissedSchedule")
	b.create("ahead", "* * * * *")
	ahead := &v1beta1.AdvancedCronJob{}
	b.must(b.user.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "ahead"}, ahead))
	ahead.Status.LastScheduleTime = new(metav1.NewTime(b.clock.Now().Add(time.Hour)))
	b.must(b.user.Status().Update(t.Context(), ahead))
	told(62*time.Minute+55*time.Second, "ahead", "RunAhead")
	calls := len(p.calls)
	for _, name := range []string{"ahead", "forbid", "late", "junk", "never", "images", "quota"} {
		p.pass(name)
	}
	if more := p.calls[calls:]; len(more) > 0 {
		t.Errorf("calls of passes that have nothing to do: %v", more)
	}
}

// TestWakes: the result of a reconciliation requeues the AdvancedCronJob at the next slot, or earlier if the slot is
// far away.
func TestWakes(t *testing.T) {
	b := newBench(t)
	b.create("minutely", "* * * * *")
	b.create("daily", "@daily")
	b.create("paused", "* * * * *", func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Paused = new(true) })
	p := b.boot()
	b.clock.SetTime(b.clock.Now().Add(7*time.Second + 250*time.Millisecond))
	for name, want := range map[string]time.Duration{"minutely": 52*time.Second + 750*time.Millisecond, "daily": longestWait, "paused": 0} {
		if got := p.rest(name).RequeueAfter; got != want {
			t.Errorf("AC-16: %s in %s, want %s", name, got, want)
		}
	}
}

// TestChangesOfTheSchedule: slots count from the schedule's last change, whether the process sees the change at once
// or another process takes over later. Without a change, nothing is written.
func TestChangesOfTheSchedule(t *testing.T) {
	nine := func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Schedule = "0 9 * * *" }
	for name, tt := range map[string]struct {
		before string
		edits  []func(*v1beta1.AdvancedCronJob) // the first is made at 12:00, the second at 13:10
		want   []string                         // the first slot that is started after each edit
	}{
		"a time that is over":       {before: "0 10 * * *", edits: []func(*v1beta1.AdvancedCronJob){nine}, want: []string{"02 09:00"}},
		"a time that is to come":    {before: "0 10 * * *", edits: []func(*v1beta1.AdvancedCronJob){func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Schedule = "30 12 * * *" }}, want: []string{"01 12:30"}},
		"there and back":            {before: "0 10 * * *", edits: []func(*v1beta1.AdvancedCronJob){nine, func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Schedule = "0 10 * * *" }}, want: []string{"02 10:00"}},
		"a time zone":               {before: "0 10 * * *", edits: []func(*v1beta1.AdvancedCronJob){func(obj *v1beta1.AdvancedCronJob) { obj.Spec.TimeZone = new("America/New_York") }}, want: []string{"01 15:00"}},
		"a time zone in the past":   {before: "0 10 * * *", edits: []func(*v1beta1.AdvancedCronJob){func(obj *v1beta1.AdvancedCronJob) { obj.Spec.TimeZone = new("Atlantic/Azores") }}, want: []string{"02 11:00"}},
		"paused over a time":        {before: "0 */3 * * *", edits: []func(*v1beta1.AdvancedCronJob){func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Paused = new(true) }, func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Paused = nil }}, want: []string{"01 15:00"}},
		"another field alone":       {before: "0 12 * * *", edits: []func(*v1beta1.AdvancedCronJob){func(obj *v1beta1.AdvancedCronJob) { obj.Spec.SuccessfulJobsHistoryLimit = new(int32(7)) }}, want: []string{"01 12:00"}},
		"not paused is said":        {before: "0 12 * * *", edits: []func(*v1beta1.AdvancedCronJob){func(obj *v1beta1.AdvancedCronJob) { obj.Spec.Paused = new(false) }}, want: []string{"01 12:00"}},
		"a schedule that is no one": {before: "junk", edits: []func(*v1beta1.AdvancedCronJob){nine}, want: []string{"02 09:00"}},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", name, restarted), func(t *testing.T) {
				b := newBench(t)
				day := b.clock.Now()
				obj := b.create("daily", tt.before)
				p := b.boot()
				next := func(at time.Time) {
					b.clock.SetTime(at)
					if restarted {
						p = b.boot()
					}
					p.rest("daily")
					before := b.server.Version()
					p.pass("daily")
					if b.server.Version() != before {
						t.Errorf("at %s something is written that was written before", at)
					}
				}
				next(day)
				next(day.Add(10*time.Hour + time.Second))
				for _, job := range b.jobs() {
					b.must(b.user.Delete(t.Context(), job))
				}
				for i, edit := range tt.edits {
					b.clock.SetTime(day.Add(12*time.Hour + time.Duration(i)*70*time.Minute))
					b.must(b.user.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
					edit(obj)
					b.must(b.user.Update(t.Context(), obj))
					next(b.clock.Now())
				}
				for hour := 13; hour < 36 && len(b.jobs()) == 0; hour++ {
					next(day.Add(time.Duration(hour)*time.Hour + 15*time.Minute))
				}
				var got []string
				for _, job := range b.jobs() {
					run, _ := Read(job)
					got = append(got, run.Slot.UTC().Format("02 15:04"))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}
