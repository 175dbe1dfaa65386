package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// one is a controller that creates a Pod for each ControllerRevision. The fields select a mistake that the controller
// makes.
type one struct {
	client.Client
	live client.Reader

	fixedName bool // the correct way: a second Pod with the same name is impossible
	extra     func(ctx context.Context, o *one, pods []corev1.Pod) error
	retry     time.Duration // after a refusal; 0 leaves the retry to the queue
}

func (o *one) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pods corev1.PodList
	if err := o.List(ctx, &pods); err != nil {
		return ctrl.Result{}, err
	}
	if len(pods.Items) == 0 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, GenerateName: "one-"}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
		if o.fixedName {
			pod.Name = "one"
		}
		return ctrl.Result{}, client.IgnoreAlreadyExists(o.Create(ctx, pod))
	}
	if o.extra != nil {
		err := o.extra(ctx, o, pods.Items)
		if o.retry > 0 && apierrors.IsForbidden(err) {
			return ctrl.Result{RequeueAfter: o.retry}, nil
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

func onePlan(mistaken one) *Plan {
	plan := Plan{Scheme: clientgoscheme.Scheme, Seeds: 200, Steps: 120, New: func(w *World) Subject {
		setup := func(_ context.Context, mgr manager.Manager) error {
			o := mistaken
			o.Client, o.live = mgr.GetClient(), mgr.GetAPIReader()
			toOwner := func(context.Context, client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "default", Name: "want"}}}
			}
			return ctrl.NewControllerManagedBy(mgr).For(&appsv1.ControllerRevision{}).
				Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(toOwner)).Complete(&o)
		}
		count := func() {
			if n := len(faultapi.All[*corev1.Pod](w.Server)); n > 1 {
				w.Failf("one Pod", "there are %d", n)
			}
		}
		return Subject{
			Setup: setup, Check: count,
			Begin: func() {
				want := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "want"}}
				if err := w.User.Create(context.Background(), want); err != nil {
					w.Failf("story", "%v", err)
				}
			},
		}
	}}
	plan = plan.complete()
	return &plan
}

// worst plays the plan's schedules until a rule is broken, and returns this violation and the seed.
func worst(t *testing.T, plan *Plan) (*Violation, uint64) {
	t.Helper()
	for seed := uint64(1); seed <= uint64(plan.Seeds); seed++ {
		if o := play(t, plan, seed, Full(plan.Steps), false); o.violation != nil {
			return o.violation, seed
		}
	}
	return nil, 0
}

// TestRules: Run itself checks some rules for every controller. A correct controller passes.
func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		controller one
	}{
		{name: "right", controller: one{fixedName: true}},
		{name: "decides on a stale cache", controller: one{}, rule: "one Pod"},
		{name: "panics", rule: "panic", controller: one{fixedName: true, extra: func(context.Context, *one, []corev1.Pod) error {
			panic("at the disco")
		}}},
		{name: "writes for ever", rule: "rest", controller: one{fixedName: true, extra: func(ctx context.Context, o *one, pods []corev1.Pod) error {
			pods[0].Labels = map[string]string{"seen": pods[0].ResourceVersion}
			return o.Update(ctx, &pods[0])
		}}},
		{name: "asks without need", rule: "idle", controller: one{fixedName: true, extra: func(ctx context.Context, o *one, pods []corev1.Pod) error {
			return o.live.Get(ctx, client.ObjectKeyFromObject(&pods[0]), &corev1.Pod{})
		}}},
		{name: "writes the same twice", rule: "repeated", controller: one{fixedName: true, extra: func(ctx context.Context, o *one, pods []corev1.Pod) error {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`))
			if pods[0].Labels["seen"] != "" {
				return nil
			}
			return errors.Join(o.Patch(ctx, &pods[0], patch), o.Patch(ctx, &pods[0], patch))
		}}},
		{name: "ends with an error at setup", rule: "setup", controller: one{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := onePlan(tt.controller)
			if tt.rule == "setup" {
				plan.New = func(*World) Subject {
					return Subject{Begin: func() {}, Setup: func(context.Context, manager.Manager) error { return errors.New("no") }}
				}
			}
			v, seed := worst(t, plan)
			got := ""
			if v != nil {
				got = v.Rule
			}
			if got != tt.rule {
				t.Errorf("seed %d: broken is %v, want %q", seed, v, tt.rule)
			}
		})
	}
}

// TestReport: a failing schedule is shortened before the report, and the reported command plays the failure again.
func TestReport(t *testing.T) {
	plan := onePlan(one{})
	v, seed := worst(t, plan)
	if v == nil {
		t.Fatal("the mistake was not found")
	}
	text := report(t, plan, seed, Full(plan.Steps), v, shrinkPlays)
	_, after, _ := strings.Cut(text, "CHAOS_SCRIPT=")
	script, err := ParseScript(strings.Fields(after)[0])
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if again := play(t, plan, seed, script, false).violation; again == nil || again.Rule != v.Rule {
		t.Errorf("steps %s lead to %v", script, again)
	}
	if len(script) > 20 || !strings.Contains(text, "-run '^TestReport$' github.com/workloadkit/workloadkit/testing/chaos\n") || !strings.Contains(text, "BROKEN one Pod") {
		t.Errorf("the story is:\n%s", text)
	}
	t.Log(text)
}

// TestImportPath: go test finds the named package of a failing test in any folder.
func TestImportPath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ function, want string }{
		{"example.com/kit/controllers/cloneset.newStory", "example.com/kit/controllers/cloneset"},
		{"example.com/kit.newStory", "example.com/kit"}, // the root of a module
		{"example.com/kit/web_test.plan.func1", "example.com/kit/web"},
		{"example.com/kit/web.TestFaults.func2.3", "example.com/kit/web"},
		{"example.com/kit/web.(*story).begin-fm", "example.com/kit/web"},
		{"gopkg.in/kit%2ev2.newStory", "gopkg.in/kit.v2"},
		{"example.com/kit/web.plan[...].func1", "example.com/kit/web"},
		{"main.plan.func1", "main"},
	} {
		if diff := cmp.Diff(tt.want, importPath(tt.function)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.function, diff)
		}
	}
}

// refusing returns a controller that tries to change a label of its Pod although a policy refuses the change.
func refusing(retry time.Duration) one {
	return one{fixedName: true, retry: retry, extra: func(ctx context.Context, o *one, pods []corev1.Pod) error {
		if pods[0].Labels["done"] != "" {
			return nil
		}
		pod := pods[0].DeepCopy()
		pod.Labels = map[string]string{"done": "true"}
		return o.Update(ctx, pod)
	}}
}

// TestHotLoop: a write that a lasting policy refuses may be retried only with growing waits.
func TestHotLoop(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		retry      time.Duration
	}{
		{name: "backs off as its queue does"},
		{name: "tries later", retry: time.Minute / 4},
		{name: "tries at once", rule: "hot loop", retry: time.Millisecond},
		{name: "tries too soon", rule: "hot loop", retry: time.Second / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := onePlan(refusing(tt.retry))
			inner := plan.New
			plan.New = func(w *World) Subject {
				denies, s := true, inner(w)
				s.Settle = func() { denies = false }
				s.Denies = func(call faultapi.Call, before client.Object) error {
					if denies && call.Verb == "update" && before.GetName() == call.Name && strings.Contains(string(call.Body), "done") {
						return apierrors.NewForbidden(call.Resource, call.Name, errors.New("policy"))
					}
					return nil
				}
				return s
			}
			v, seed := worst(t, plan)
			got := ""
			if v != nil {
				got = v.Rule
			}
			if diff := cmp.Diff(tt.rule, got); diff != "" {
				t.Errorf("seed %d: %v; rule (-want +got):\n%s", seed, v, diff)
			}
		})
	}
}

// TestDenies: a refused write has no effect, and the log shows the refusal even if the process dies during the call.
// Denies is not called if the server would return an error before admission.
func TestDenies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		call   faultapi.Call
		before client.Object
		want   bool
	}{
		{"a read", faultapi.Call{Verb: "get", Name: "p"}, &corev1.Pod{}, false},
		{"a creation", faultapi.Call{Verb: "create"}, nil, true},
		{"a patch", faultapi.Call{Verb: "patch", Name: "p"}, &corev1.Pod{}, true},
		{"a patch of what is gone", faultapi.Call{Verb: "patch", Name: "p"}, nil, false},
		{"a deletion", faultapi.Call{Verb: "delete", Name: "p", UID: "u1"}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}}, true},
		{"a deletion of a successor", faultapi.Call{Verb: "delete", Name: "p", UID: "u1"}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u2"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &World{refused: map[refusedWrite][]time.Time{}}
			w.subject.Denies = func(faultapi.Call, client.Object) error { return errors.New("policy") }
			if got := w.admit(nil, nil, tt.call, tt.before) != nil; got != tt.want {
				t.Errorf("denied: %v, want %v", got, tt.want)
			}
		})
	}
	plan := onePlan(one{fixedName: true})
	inner := plan.New
	plan.New = func(w *World) Subject {
		s := inner(w)
		s.Denies = func(call faultapi.Call, _ client.Object) error {
			return apierrors.NewForbidden(call.Resource, call.Name, errors.New("policy"))
		}
		s.Settle = func() {
			if n := len(faultapi.All[*corev1.Pod](w.Server)); n > 0 {
				w.Failf("denied", "there are %d Pods", n)
			}
			w.Failf("done", "as it should be")
		}
		return s
	}
	told := 0
	for seed := range uint64(50) {
		o := play(t, plan, seed, Full(120), true)
		if o.violation.Rule != "done" {
			t.Errorf("seed %d: %v", seed, o.violation)
		}
		told += strings.Count(strings.Join(o.trace, "\n"), "REFUSED pods \"one\" is forbidden: policy")
	}
	if told == 0 {
		t.Error("no story tells of a refusal")
	}
}

// TestFates: writes sometimes fail as forbidden or invalid, and the error of an invalid write names a field. Reads
// never fail in this way.
func TestFates(t *testing.T) {
	w := &World{}
	got := map[string]int{}
	for step := range 20000 {
		w.enter(step, false)
		for _, verb := range []string{"get", "create", "patch"} {
			err := w.fate(faultapi.Call{Verb: verb, Name: "p"}).Before
			switch status := apierrors.APIStatus(nil); {
			case apierrors.IsForbidden(err):
				got[verb+" 403"]++
			case errors.As(err, &status) && apierrors.IsInvalid(err):
				got[verb+" 422 "+status.Status().Details.Causes[0].Field]++
			}
		}
	}
	for what, n := range got {
		if n < 150 || n > 500 {
			t.Errorf("%s: %d of 20,000", what, n)
		}
		got[what] = 1
	}
	want := map[string]int{"create 403": 1, "create 422 spec": 1, "patch 403": 1, "patch 422 spec": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// TestLull: in the middle of a schedule, all pending work is done in little simulated time.
func TestLull(t *testing.T) {
	plan := onePlan(one{fixedName: true})
	inner, rested, began := plan.New, 0, time.Time{}
	plan.New = func(w *World) Subject {
		s := inner(w)
		s.Check = func() {
			if w.steps != 1 || w.over {
				return
			}
			began = time.Now()
			w.lull()
			for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
				if pod.Status.Phase == corev1.PodRunning && w.Processes()[0].Cache.Behind("pods") == 0 {
					rested++
				}
			}
			if took := time.Since(began); took > lullRounds*longPause {
				w.Failf("lull", "it took %v", took)
			}
			w.Failf("done", "as it should be")
		}
		return s
	}
	for seed := range uint64(20) {
		if v := play(t, plan, seed, Full(1), false).violation; v.Rule != "done" {
			t.Errorf("seed %d: %v", seed, v)
		}
	}
	if rested != 20 {
		t.Errorf("%d of 20 lulls end with a Pod that runs and a cache that knows", rested)
	}
}

// TestBeside: a program in Subject.Beside starts and dies independently, its calls to other systems wait for the
// schedule, and the program does not count as a replica of the controllers.
func TestBeside(t *testing.T) {
	plan := onePlan(one{fixedName: true})
	plan.Replicas = 2
	inner, starts, answers := plan.New, 0, map[string]int{}
	plan.New = func(w *World) Subject {
		s := inner(w)
		s.Beside = []func(context.Context, *Process, manager.Manager) error{func(_ context.Context, p *Process, mgr manager.Manager) error {
			starts++
			return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
				for ctx.Err() == nil {
					fate := p.Pass(ctx, faultapi.Call{Verb: "get", Resource: schema.GroupResource{Resource: "weather"}})
					answers[fmt.Sprint(fate.Before != nil, fate.After != nil)]++
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
				}
				return nil
			}))
		}}
		s.Converged = func() {
			var leads []bool
			for _, p := range w.Processes() {
				leads = append(leads, p.leads)
			}
			if len(leads) != 3 || leads[0] == leads[1] || !leads[2] {
				w.Failf("leaders", "%v", leads)
			}
		}
		return s
	}
	plan.Seeds = 30
	if v, seed := worst(t, plan); v != nil {
		t.Errorf("seed %d: %v", seed, v)
	}
	if starts < 32 || answers["false false"] < 100 || answers["true false"] == 0 || answers["false true"] == 0 {
		t.Errorf("%d starts, answers by whether an error came before or after the call: %v", starts, answers)
	}
}

// TestReportOfChance: if a failure does not depend on the seed alone, the report says so.
func TestReportOfChance(t *testing.T) {
	played := 0
	plan := onePlan(one{fixedName: true})
	inner := plan.New
	plan.New = func(w *World) Subject {
		s := inner(w)
		played++
		n := played
		s.Check = func() { w.Failf(fmt.Sprintf("chance %d", n), "a rule of its own each time") }
		return s
	}
	v := play(t, plan, 1, Full(5), false).violation
	if text := report(t, plan, 1, Full(5), v, 0); !strings.Contains(text, "seed 1 does not repeat itself") {
		t.Error(text)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	plan := Plan{Seeds: 300, Steps: 150}
	for _, tt := range []struct {
		env  map[string]string
		want settings
		err  string
	}{
		{want: settings{seeds: 300, steps: 150, plays: shrinkPlays, failures: maxFailures, first: 1}},
		{env: map[string]string{"CHAOS_SEEDS": "7", "CHAOS_STEPS": "9", "CHAOS_FIRST_SEED": "12", "CHAOS_PLAYS": "0", "CHAOS_FAILURES": "1"}, want: settings{seeds: 7, steps: 9, first: 12, failures: 1}},
		{env: map[string]string{"CHAOS_SEEDS": "", "CHAOS_FIRST_SEED": ""}, want: settings{seeds: 300, steps: 150, plays: shrinkPlays, failures: maxFailures, first: 1}},
		{env: map[string]string{"CHAOS_SEEDS": "many", "CHAOS_STEPS": "-1", "CHAOS_FIRST_SEED": "x", "CHAOS_SCRIPT": "0"}, err: `CHAOS_SEEDS is "many"`},
	} {
		got, err := fromEnvironment(&plan, func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
		if tt.err != "" {
			for _, part := range []string{tt.err, "CHAOS_STEPS", "CHAOS_FIRST_SEED", "CHAOS_SCRIPT"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v: error %v does not say %s", tt.env, err, part)
				}
			}
			continue
		}
		if err != nil || got.seeds != tt.want.seeds || got.steps != tt.want.steps || got.first != tt.want.first || got.plays != tt.want.plays || got.failures != tt.want.failures {
			t.Errorf("%v: %+v, %v; want %+v", tt.env, got, err, tt.want)
		}
	}
}
