package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/faultapi"
)

// one is a controller that wants one Pod for each ControllerRevision, with the mistake that a test gives it.
type one struct {
	client.Client
	live client.Reader

	fixedName bool // the right way: a second Pod of the name cannot be
	extra     func(ctx context.Context, o *one, pods []corev1.Pod) error
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
		return ctrl.Result{}, o.extra(ctx, o, pods.Items)
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

// worst plays the plan's schedules and returns the first violation and its seed.
func worst(t *testing.T, plan *Plan) (*Violation, uint64) {
	t.Helper()
	for seed := uint64(1); seed <= uint64(plan.Seeds); seed++ {
		if o := play(t, plan, seed, Full(plan.Steps), false); o.violation != nil {
			return o.violation, seed
		}
	}
	return nil, 0
}

// TestRules: what the harness itself demands of every controller, and that a right one passes.
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

// TestReport: a failure is told as short as it can be, and the command that is told plays it again.
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
	if len(script) > 20 || !strings.Contains(text, "-run '^TestReport$' ./.../chaos") || !strings.Contains(text, "BROKEN one Pod") {
		t.Errorf("the story is:\n%s", text)
	}
	t.Log(text)
}

// TestReportOfChance: what does not depend on the seed alone is told as such.
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
		{want: settings{seeds: 300, steps: 150, plays: shrinkPlays, first: 1}},
		{env: map[string]string{"CHAOS_SEEDS": "7", "CHAOS_STEPS": "9", "CHAOS_FIRST_SEED": "12", "CHAOS_PLAYS": "0"}, want: settings{seeds: 7, steps: 9, first: 12}},
		{env: map[string]string{"CHAOS_SEEDS": "", "CHAOS_FIRST_SEED": ""}, want: settings{seeds: 300, steps: 150, plays: shrinkPlays, first: 1}},
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
		if err != nil || got.seeds != tt.want.seeds || got.steps != tt.want.steps || got.first != tt.want.first || got.plays != tt.want.plays {
			t.Errorf("%v: %+v, %v; want %+v", tt.env, got, err, tt.want)
		}
	}
}
