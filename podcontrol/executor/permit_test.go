package executor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/reason"
)

const hookGate = corev1.PodConditionType("example.com/Hook")

// spent is the refusal of a spent budget.
func spent() error { return reason.Reason{Code: disruption.BudgetSpent, Detail: "3 of 4 serve"} }

// TestPermit: Permit is asked before a Pod is taken out of service, and at no other time. A refusal sends no request,
// has no event, and is tried again after a second.
func TestPermit(t *testing.T) {
	hooks := lifecycle.Hooks{PreDelete: &lifecycle.Hook{Finalizers: []string{"example.com/hook"}}}
	hold := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hook"} }
	resize := func(policy corev1.ResourceResizeRestartPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: policy}}
		}
	}
	for _, tc := range []struct {
		name   string
		pod    func(*corev1.Pod)
		rules  func(*podcontrol.Rules)
		do     func(w *world, p *pods, pod *corev1.Pod) (bool, error)
		asked  []disruption.Operation
		passes bool // the step goes on all the same
	}{
		{"deletion", nil, nil, func(w *world, p *pods, pod *corev1.Pod) (bool, error) { return p.Delete(w.t.Context(), pod) }, []disruption.Operation{disruption.Delete}, false},
		{"deletion that waits for a hook first", hold, func(r *podcontrol.Rules) { r.Hooks = hooks }, func(w *world, p *pods, pod *corev1.Pod) (bool, error) {
			return p.Delete(w.t.Context(), pod)
		}, nil, true},
		{"deletion that takes it out of service before its hook", func(pod *corev1.Pod) {
			hold(pod)
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: hookGate}}
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: hookGate, Status: corev1.ConditionTrue})
		}, func(r *podcontrol.Rules) {
			r.Hooks = lifecycle.Hooks{PreDelete: &lifecycle.Hook{Finalizers: []string{"example.com/hook"}, MarkNotReady: true}}
		}, func(w *world, p *pods, pod *corev1.Pod) (bool, error) { return p.Delete(w.t.Context(), pod) }, []disruption.Operation{disruption.Delete}, false},
		{"another image", nil, nil, func(w *world, p *pods, pod *corev1.Pod) (bool, error) { return w.update(p, pod, false) }, []disruption.Operation{disruption.Update}, false},
		{"recreation", nil, nil, func(w *world, p *pods, pod *corev1.Pod) (bool, error) { return w.update(p, pod, true) }, []disruption.Operation{disruption.Delete}, false},
		{"resize", resize(corev1.NotRequired), nil, resizeTo, []disruption.Operation{disruption.Resize}, false},
		{"resize that restarts", resize(corev1.RestartContainer), nil, resizeTo, []disruption.Operation{disruption.Update}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(config *podcontrol.Config) {
				config.HookGate = hookGate
				config.Holder = func(kind lifecycle.Kind) podreadiness.Holder {
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
			changed, err := tc.do(w, w.begin(), pod)
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if tc.passes {
				if !changed || err != nil {
					t.Errorf("changed %t, %v", changed, err)
				}
				return
			}
			if changed || !errors.Is(err, disruption.BudgetSpent) || !reason.IsFinal(err) {
				t.Errorf("changed %t, %v; want a final BudgetSpent", changed, err)
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
func resizeTo(w *world, p *pods, pod *corev1.Pod) (bool, error) {
	to := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	plan := &inplaceupdate.Plan{Resources: map[string]corev1.ResourceRequirements{"app": to}}
	plan.ResizeRestarts = pod.Spec.Containers[0].ResizePolicy[0].RestartPolicy == corev1.RestartContainer
	target := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2"}}
	return p.UpdateTo(target, func(*corev1.Pod) *inplaceupdate.Plan { return plan })(w.t.Context(), pod)
}
