package restart_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
)

func at(second int) time.Time { return time.Date(2026, 3, 1, 12, 0, second, 0, time.UTC) }

func wish(t *testing.T, text string) *restart.Wish {
	t.Helper()
	var read judge.Reading
	w := restart.Read(&read, map[string]string{apps.AnnotationRestartContainers: text})
	if len(read.Problems) > 0 {
		t.Fatal(read.Problems.Reasons())
	}
	return w
}

const today, yesterday = "2026-03-01T12:00:10Z", "2026-02-28T12:00:00Z app"

type request = v1beta1.ContainerRecreateRequest

// story is a workload described by letters. Each letter makes a Pod; the Pods are named a, b, c and so on.
//
//	w must be restarted and is available; u must be restarted and is unavailable
//	r has a request in progress; s has a successful request, but by the Node's clock no container has restarted
//	f has a failed request; o has the ended request of an earlier restart, p such a request in progress
//	d has restarted; S has restarted, and its request still exists
//	n was created after the requested time; c has crashed after the requested time, so the container has restarted
//	l waits for a hook before its deletion; e is being updated
//	x has no such container; the kubelet does not start the container of k again; the container of v has never started;
//	a budget refuses b
type story struct {
	set      podcontrol.Set
	requests []*request
}

func newStory(letters string) *story {
	s := &story{}
	for i, letter := range letters {
		name := string(rune('a' + i))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(at(0))}}
		pod.Spec.Containers = []corev1.Container{{Name: "app"}}
		status := corev1.ContainerStatus{Name: "app", ContainerID: "c://" + name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(1))}}}
		facts := podcontrol.Pod{Pod: pod, Available: !strings.ContainsRune("ulev", letter)}
		switch letter {
		case 'r':
			s.ask(pod, today, "Recreating", "Pending")
		case 'p':
			s.ask(pod, yesterday, "", "")
		case 's', 'f', 'o', 'S':
			state := map[rune]string{'f': "Failed"}[letter]
			s.ask(pod, map[rune]string{'o': yesterday}[letter], "Completed", state)
		case 'n':
			pod.CreationTimestamp = metav1.NewTime(at(11))
		case 'c':
			status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(at(12))}
		case 'l':
			facts.Leaving = true
		case 'e':
			facts.State = lifecycle.Updating
		case 'x':
			pod.Spec.Containers[0].Name = "other"
		case 'k':
			pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		case 'v':
			status = corev1.ContainerStatus{Name: "app"}
		}
		if strings.ContainsRune("dS", letter) {
			status.State.Running.StartedAt = metav1.NewTime(at(10))
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		s.set.Active = append(s.set.Active, facts)
	}
	slices.Reverse(s.set.Active) // Decide must not depend on the order of the Pods
	return s
}

func (s *story) ask(pod *corev1.Pod, text, phase, state string) {
	if text == "" {
		text = today
	}
	r := &request{ObjectMeta: metav1.ObjectMeta{Name: "restart-" + string(pod.UID), Annotations: map[string]string{apps.AnnotationRestartContainers: text}}}
	r.Spec.Containers = []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}}
	r.Status.Phase = v1beta1.ContainerRecreateRequestPhase(phase)
	if phase != "" {
		if state == "" {
			state = "Succeeded"
		}
		r.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{{Name: "app", Phase: v1beta1.ContainerRecreateRequestPhase(state)}}
	}
	s.requests = append(s.requests, r)
}

func (s *story) rules(unavailable int) restart.Rules {
	return restart.Rules{Replicas: len(s.set.Active), MaxUnavailable: unavailable, Order: func() []*corev1.Pod {
		return s.set.Select(func(*podcontrol.Pod) bool { return true })
	}}
}

// TestDecide checks which Pods to restart, which Pods are being restarted and which requests to remove, each as
// letters, and the condition.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name, pods                string
		unavailable               int
		change                    func(*restart.View, *restart.Rules)
		restart, keep, remove     string
		condition, reason, detail string
		after                     time.Duration
	}{
		{name: "as many as may be away", pods: "wwww", unavailable: 2, restart: "ab", condition: "False", reason: "Restarting", detail: "0 of 4 Pods have restarted since 2026-03-01T12:00:10Z", after: 4 * time.Second},
		{name: "a Pod under restart is away", pods: "rwww", unavailable: 2, restart: "b", keep: "a", condition: "False", reason: "Restarting", detail: "0 of 4 Pods have restarted since 2026-03-01T12:00:10Z; 1 are restarting", after: 4 * time.Second},
		{name: "whatever the restart", pods: "pwww", unavailable: 1, keep: "a", condition: "False", reason: "UpdateLimited", detail: "1 are restarting; waiting: UpdateLimited", after: 4 * time.Second},
		{name: "a Pod that does not serve loses nothing", pods: "wwwu", unavailable: 1, restart: "d", condition: "False", reason: "UpdateLimited", after: 4 * time.Second},
		{name: "all have restarted, somehow", pods: "dnsc", unavailable: 1, condition: "True", reason: "Restarted", detail: "4 of 4 Pods have restarted since 2026-03-01T12:00:10Z"},
		{name: "the Pod shows the restart, so its request goes", pods: "Sw", unavailable: 1, restart: "b", remove: "a", condition: "False", reason: "Restarting", detail: "1 of 2", after: 4 * time.Second},
		{name: "an earlier request goes first", pods: "oww", unavailable: 1, restart: "b", remove: "a", condition: "False", reason: "EarlierRequest", after: 4 * time.Second},
		{name: "a failure is told, and holds up nobody", pods: "fw", unavailable: 1, restart: "b", condition: "False", reason: "Restarting", detail: "not restarted: RequestFailed: Pod shop/a: container app was not recreated", after: 4 * time.Second},
		{name: "and the end is no success", pods: "fd", unavailable: 1, condition: "False", reason: "RequestFailed", detail: "1 of 2 Pods"},
		{name: "no such container", pods: "xd", unavailable: 1, change: func(v *restart.View, _ *restart.Rules) { v.Wish = wish(t, today+" app") }, condition: "False", reason: "NoContainer", detail: "Pod shop/a: has no container app"},
		{name: "the kubelet would not start it again", pods: "kw", unavailable: 1, restart: "b", condition: "False", reason: "Restarting", detail: "NotStartedAgain: Pod shop/a", after: 4 * time.Second},
		{name: "never started", pods: "vw", unavailable: 2, restart: "b", condition: "False", reason: "NeverStarted", after: 4 * time.Second},
		{name: "being updated", pods: "ew", unavailable: 2, restart: "b", condition: "False", reason: "BeingChanged", after: 4 * time.Second},
		{name: "about to go, and missing from then on", pods: "lw", unavailable: 1, condition: "False", reason: "UpdateLimited", detail: "0 of 1 Pods"},
		{name: "a budget refuses", pods: "bw", unavailable: 1, change: func(v *restart.View, _ *restart.Rules) {
			v.Rest = func(pod *corev1.Pod) error {
				if pod.Name == "a" {
					return reason.Reason{Code: disruption.BudgetSpent, Detail: "2 of 2 Pods serve"}
				}
				return nil
			}
		}, restart: "b", condition: "False", reason: "BudgetSpent", detail: "waiting: BudgetSpent: Pod shop/a: 2 of 2 Pods serve", after: 4 * time.Second},
		{name: "a policy refuses", pods: "w", unavailable: 1, change: func(v *restart.View, _ *restart.Rules) {
			v.Rest = func(*corev1.Pod) error { return errors.New("a webhook says no") }
		}, condition: "False", reason: "Error", detail: "a webhook says no", after: 5 * time.Second},
		{name: "paused", pods: "rww", unavailable: 3, change: func(_ *restart.View, r *restart.Rules) { r.Paused = true }, keep: "a", condition: "False", reason: "JobPaused", detail: "spec.updateStrategy.rollingUpdate.paused", after: 4 * time.Second},
		{name: "a partition", pods: "wwww", unavailable: 4, change: func(_ *restart.View, r *restart.Rules) { r.Partition = 3 }, restart: "a", condition: "False", reason: "Restarting", after: 4 * time.Second},
		{name: "a partition that is reached", pods: "dwww", unavailable: 4, change: func(_ *restart.View, r *restart.Rules) { r.Partition = 3 }, condition: "False", reason: "PartitionReached", detail: "3 Pods have not restarted, 3 are kept so"},
		{name: "a partition of certain Pods, one of which has restarted by itself", pods: "wwdw", unavailable: 4, change: keepLast(2), restart: "ab", condition: "False", reason: "Restarting", after: 4 * time.Second},
		{name: "a Pod that is about to go counts for nothing", pods: "ww", unavailable: 1, change: func(_ *restart.View, r *restart.Rules) {
			r.Skips = func(pod *corev1.Pod) bool { return pod.Name == "a" }
		}, condition: "False", reason: "UpdateLimited", detail: "0 of 1 Pods"},
		{name: "not before its time", pods: "ww", unavailable: 1, change: func(v *restart.View, _ *restart.Rules) { v.Now = at(7) }, condition: "False", reason: "NotYet", detail: "begins at 2026-03-01T12:00:10Z", after: 3 * time.Second},
		{name: "without agents", pods: "ww", unavailable: 1, change: func(v *restart.View, _ *restart.Rules) { v.Off = restart.WithoutAgents() }, condition: "False", reason: "NoAgents", detail: "switch the gate on"},
		{name: "without the CRD", pods: "wd", unavailable: 1, change: unserved, condition: "False", reason: "NotServed", detail: "1 of 2 Pods have restarted since 2026-03-01T12:00:10Z; waiting: NotServed: the API server does not serve requests in version v1; install CustomResourceDefinition requests.example.test", after: 10 * time.Second},
		{name: "without the CRD, before its time", pods: "w", unavailable: 1, change: func(v *restart.View, r *restart.Rules) { unserved(v, r); v.Now = at(7) }, condition: "False", reason: "NotServed", after: 10 * time.Second},
		{name: "without the CRD, and no Pod waits", pods: "dn", unavailable: 1, change: unserved, condition: "True", reason: "Restarted"},
		{name: "without the CRD and a wish", pods: "w", unavailable: 1, change: func(v *restart.View, r *restart.Rules) { unserved(v, r); v.Wish = nil }},
		{name: "no wish any more", pods: "rsow", unavailable: 1, change: func(v *restart.View, _ *restart.Rules) { v.Wish = nil }, keep: "a", remove: "bc", after: 4 * time.Second},
		{name: "no Pods", unavailable: 1, condition: "True", reason: "Restarted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(c.pods)
			v, rules := restart.NewView(wish(t, today), s.requests, at(20)), s.rules(c.unavailable)
			if c.change != nil {
				c.change(v, &rules)
			}
			plan := restart.Decide(v, &s.set, func() restart.Rules { return rules })
			got := []string{names(plan.Restart), names(plan.Keep), removed(plan.Remove), string(plan.Condition.Status), plan.Condition.Reason, plan.After.String()}
			if diff := cmp.Diff([]string{c.restart, c.keep, c.remove, c.condition, c.reason, c.after.String()}, got); diff != "" {
				t.Errorf("(-want +got):\n%s%s", diff, plan.Condition.Message)
			}
			if off := c.reason == "NotServed" || c.reason == "NoAgents"; off != slices.ContainsFunc(plan.Problems(), func(r reason.Reason) bool { return string(r.Code) == c.reason && r.Remedy != "" }) {
				t.Errorf("problems %v", plan.Problems())
			}
			if !strings.Contains(plan.Condition.Message, c.detail) {
				t.Errorf("%q does not say %q", plan.Condition.Message, c.detail)
			}
		})
	}
}

func unserved(v *restart.View, _ *restart.Rules) {
	v.Off = restart.Unserved(schema.GroupVersionResource{Group: "example.test", Version: "v1", Resource: "requests"})
}

func keepLast(n int) func(*restart.View, *restart.Rules) {
	return func(_ *restart.View, r *restart.Rules) {
		pods := r.Order()
		r.Keeps = func(pod *corev1.Pod) bool { return slices.Index(pods, pod) >= len(pods)-n }
	}
}

func names(pods []*corev1.Pod) (out string) {
	for _, pod := range pods {
		out += pod.Name
	}
	return out
}

func removed(requests []*request) (out string) {
	for _, r := range requests {
		out += strings.TrimPrefix(r.Name, "restart-uid-")
	}
	return out
}

// TestDecideRemovesRequestsOfGonePods: the ContainerRecreateRequest for a deleted Pod is deleted, and a request that
// another client has created stays.
func TestDecideRemovesRequestsOfGonePods(t *testing.T) {
	s := newStory("rrr")
	s.set.Active = s.set.Active[:1]
	s.requests[1].DeletionTimestamp = &metav1.Time{Time: at(0)}
	other := s.requests[0].DeepCopy()
	other.Name = "mine"
	plan := restart.Decide(restart.NewView(nil, append(s.requests, other), at(20)), &s.set, func() restart.Rules { return s.rules(1) })
	if got := removed(plan.Remove); got != "a" || names(plan.Keep) != "c" {
		t.Errorf("removed %q, kept %q", got, names(plan.Keep))
	}
	s = newStory("rs")
	s.set.NotSelected = []*corev1.Pod{s.set.Active[0].Pod, s.set.Active[1].Pod}
	s.set.Active = nil
	if got := removed(restart.Decide(restart.NewView(nil, s.requests, at(20)), &s.set, func() restart.Rules { return s.rules(1) }).Remove); got != "b" {
		t.Errorf("of Pods about to be released, removed %q", got)
	}
}

func TestAway(t *testing.T) {
	s := newStory("wrpso")
	v := restart.NewView(wish(t, today), s.requests, at(20))
	away := s.set.Select(func(p *podcontrol.Pod) bool { return v.Away(p.Pod) })
	if got := names(away); got != "bc" {
		t.Errorf("%q are away", got)
	}
}

func TestRequest(t *testing.T) {
	pod := newStory("w").set.Active[0].Pod
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "log"})
	pod.Spec.TerminationGracePeriodSeconds = new(int64(5))
	owner := metav1.OwnerReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "u", Controller: new(true), BlockOwnerDeletion: new(true)}
	got := wish(t, today).Request(pod, owner)
	want := &request{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "restart-uid-a", Annotations: map[string]string{apps.AnnotationRestartContainers: today},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "u", Controller: new(true)}},
		},
		Spec: v1beta1.ContainerRecreateRequestSpec{
			PodName: "a", ActiveDeadlineSeconds: new(int64(605)), Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}, {Name: "log"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if some := wish(t, today+" log").Request(pod, owner).Spec.Containers; len(some) != 1 || some[0].Name != "log" {
		t.Errorf("containers %v", some)
	}
}

func TestReport(t *testing.T) {
	var conditions v1beta1.Conditions
	s := newStory("d")
	now := metav1.NewTime(at(20))
	restart.Decide(restart.NewView(wish(t, today), nil, at(20)), &s.set, func() restart.Rules { return s.rules(1) }).Report(&conditions, now)
	if c := conditions.Find(apps.ConditionContainersRestarted); c == nil || c.Status != corev1.ConditionTrue || c.LastTransitionTime != now {
		t.Errorf("conditions %+v", conditions)
	}
	var none *restart.Plan
	if none.Report(&conditions, now); len(conditions) != 1 {
		t.Error("a pass without a plan changes the status")
	}
	if restart.Decide(nil, &s.set, func() restart.Rules { return s.rules(1) }).Report(&conditions, now); len(conditions) != 0 {
		t.Errorf("without a wish: conditions %+v", conditions)
	}
}
