package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/reason"
)

const hookGate = corev1.PodConditionType("example.com/Hook")

// spent returns the error of a disruption budget that allows no further unavailable Pod.
func spent() error { return reason.Reason{Code: disruption.BudgetSpent, Detail: "3 of 4 serve"} }

// TestPermit: Permit is called only before a Pod is taken out of service. After a refusal, no request is sent, no
// Event and no error are reported, and the step is tried again after a second. Waiting lists the refusal.
func TestPermit(t *testing.T) {
	hooks := lifecycle.Hooks{PreDelete: &lifecycle.Hook{Finalizers: []string{"example.com/hook"}}}
	hold := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hook"} }
	resize := func(policy corev1.ResourceResizeRestartPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: policy}}
		}
	}
	for _, tc := range []struct {
		name  string
		pod   func(*corev1.Pod)
		rules func(*podcontrol.Rules)
		do    func(w *world, p *turn, pod *corev1.Pod) (bool, error)
		asked []disruption.Operation
	}{
		{"deletion", nil, nil, func(w *world, p *turn, pod *corev1.Pod) (bool, error) { return p.Delete(w.t.Context(), pod) }, []disruption.Operation{disruption.Delete}},
		{"deletion that waits for a hook first", hold, func(r *podcontrol.Rules) { r.Hooks = hooks }, func(w *world, p *turn, pod *corev1.Pod) (bool, error) {
			return p.Delete(w.t.Context(), pod)
		}, []disruption.Operation{disruption.Delete}},
		{"deletion that takes it out of service before its hook", func(pod *corev1.Pod) {
			hold(pod)
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: hookGate}}
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: hookGate, Status: corev1.ConditionTrue})
		}, func(r *podcontrol.Rules) {
			r.Hooks = lifecycle.Hooks{PreDelete: &lifecycle.Hook{Finalizers: []string{"example.com/hook"}, MarkNotReady: true}}
		}, func(w *world, p *turn, pod *corev1.Pod) (bool, error) { return p.Delete(w.t.Context(), pod) }, []disruption.Operation{disruption.Delete}},
		{"another image", nil, nil, func(w *world, p *turn, pod *corev1.Pod) (bool, error) { return w.update(p, pod, false) }, []disruption.Operation{disruption.Update}},
		{"recreation", nil, nil, func(w *world, p *turn, pod *corev1.Pod) (bool, error) { return w.update(p, pod, true) }, []disruption.Operation{disruption.Delete}},
		{"resize", resize(corev1.NotRequired), nil, resizeTo, []disruption.Operation{disruption.Resize}},
		{"resize that restarts", resize(corev1.RestartContainer), nil, resizeTo, []disruption.Operation{disruption.Update}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(config *podcontrol.Config) {
				config.HookGate = hookGate
				config.Holder = func(kind lifecycle.HookName) podreadiness.Holder {
					return podreadiness.Holder{UserAgent: "test", Key: fmt.Sprint(kind)}
				}
			})
			if tc.rules != nil {
				tc.rules(&w.rules)
			}
			pod := w.add("a", func(pod *corev1.Pod) {
				if tc.pod != nil {
					tc.pod(pod)
				}
			})
			var asked []disruption.Operation
			w.permit = func(_ *corev1.Pod, operation disruption.Operation) error {
				asked = append(asked, operation)
				return spent()
			}
			p := w.begin()
			changed, err := tc.do(w, p, pod)
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if changed || err != nil {
				t.Errorf("changed %t, %v; want nothing done", changed, err)
			}
			if waiting := p.Waiting(); len(waiting) != 1 || waiting[0].Code != disruption.BudgetSpent {
				t.Errorf("waiting for %v, want BudgetSpent", waiting)
			}
			if sent := w.Requests(); len(sent) > 0 || len(w.events) > 0 {
				t.Errorf("requests %v, events %v; want none", sent, w.events)
			}
			if result, err := w.pass.Result(err); result.RequeueAfter != time.Second || err != nil {
				t.Errorf("result %+v, %v; want to come again after a second", result, err)
			}
			w.permit = nil
			if changed, err := tc.do(w, w.begin(), pod); !changed || err != nil {
				t.Errorf("once it is let go: changed %t, %v", changed, err)
			}
		})
	}
}

// resizeTo gives a Pod another cpu request.
func resizeTo(w *world, p *turn, pod *corev1.Pod) (bool, error) {
	to := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	plan := &inplaceupdate.Plan{Resources: map[string]corev1.ResourceRequirements{"app": to}}
	plan.ResizeRestarts = pod.Spec.Containers[0].ResizePolicy[0].RestartPolicy == corev1.RestartContainer
	target := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2"}}
	return p.UpdateTo(target, func(*corev1.Pod) *inplaceupdate.Plan { return plan })(w.t.Context(), pod)
}

// TestWaiting: hooks are listed for as long as they hold a Pod, and refusals of Permit in the order of the Pods' names.
func TestWaiting(t *testing.T) {
	w := newWorld(t)
	w.rules.Hooks = lifecycle.Hooks{PreDelete: &lifecycle.Hook{Finalizers: []string{"example.com/hook"}}}
	held := w.add("held", func(pod *corev1.Pod) {
		pod.Finalizers, pod.Labels[stateLabel] = []string{"example.com/hook"}, string(lifecycle.PreparingDelete)
	})
	for _, name := range []string{"b", "a"} {
		w.add(name)
	}
	w.permit = func(*corev1.Pod, disruption.Operation) error { return errors.New("not now") }
	p := w.beginWith(held)
	for _, pod := range []string{"b", "a", "held"} {
		live, ok := w.cache.Pods.Get("default", pod)
		if !ok {
			t.Fatalf("Pod %s is not in the cache", pod)
		}
		if changed, err := p.Delete(t.Context(), live); changed || err != nil {
			t.Errorf("Pod %s: changed %t, %v", pod, changed, err)
		}
	}
	var got []string
	for _, why := range p.Waiting() {
		got = append(got, why.Object.Name+" "+string(why.Code))
	}
	if diff := cmp.Diff([]string{"held HookHolds", "a Withheld", "b Withheld"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPermitFails: if Permit cannot decide because of a failed request, the reconcile fails, and Waiting lists no
// reason.
func TestPermitFails(t *testing.T) {
	for _, failure := range []error{apierrors.NewForbidden(schema.GroupResource{Resource: "budgets"}, "web", nil), context.DeadlineExceeded} {
		w := newWorld(t)
		pod := w.add("a")
		w.permit = func(*corev1.Pod, disruption.Operation) error { return fmt.Errorf("asking: %w", failure) }
		p := w.beginWith()
		changed, err := p.Delete(t.Context(), pod)
		if changed || !errors.Is(err, failure) {
			t.Errorf("%v: changed %t, %v", failure, changed, err)
		}
		if waiting := p.Waiting(); len(waiting) > 0 {
			t.Errorf("%v: waits for %v", failure, waiting)
		}
	}
}

// TestInvalidRules: if a user's spec has an empty hook, no Pod is created, because its gate would never open, and the
// owner's loop reports the reason.
func TestInvalidRules(t *testing.T) {
	w := newWorld(t)
	waits := w.add("a", func(pod *corev1.Pod) { pod.Status.Conditions = nil })
	w.rules.Hooks = lifecycle.Hooks{PreDelete: &lifecycle.Hook{}}
	p := w.begin()
	invalid := reason.Reason{Code: podcontrol.InvalidRules}
	if err := p.Create(t.Context(), &corev1.Pod{}); !errors.Is(err, invalid.Code) {
		t.Errorf("Create: %v", err)
	}
	if err := p.Unfinished(); !errors.Is(err, invalid.Code) {
		t.Errorf("Unfinished: %v", err)
	}
	result, err := w.x.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(waits)})
	if result != (ctrl.Result{}) || err != nil || len(w.events) > 0 {
		t.Errorf("the Pod's loop: %v, %v, events %v; want nothing, as nothing is wrong with the Pod", result, err, w.events)
	}
	if !w.x.IsUnfinished(waits) {
		t.Error("the owner's next spec does not wake the Pod")
	}
}

// TestMembers: a Pod counts as in service for a budget while the Pod is ready, is not being updated, and does not
// wait for its hook before a deletion.
func TestMembers(t *testing.T) {
	w := newWorld(t)
	ungated := func(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }
	state := func(s lifecycle.State) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels[stateLabel] = string(s) }
	}
	unready := func(pod *corev1.Pod) { pod.Status.Conditions = nil }
	list := []*corev1.Pod{w.add("plain"), w.add("ungated", ungated), w.add("leaving", state(lifecycle.PreparingDelete)), w.add("updating", state(lifecycle.Updating)), w.add("unready", unready)}
	type member struct {
		Name            string
		Serves, Settled bool
	}
	var got []member
	for _, m := range executor.Members(podcontrol.NewReader(w.control).Read("uid-web", list, podcontrol.Want{}, begin)) {
		got = append(got, member{m.Name, m.Serves, m.Settled})
	}
	for _, pod := range list {
		got = append(got, member{pod.Name, w.x.Serves(pod), true})
	}
	want := []member{{"plain", true, true}, {"ungated", true, false}, {"leaving", false, true}, {"updating", false, false}, {"unready", false, true}}
	for _, m := range want {
		want = append(want, member{m.Name, m.Serves, true})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
