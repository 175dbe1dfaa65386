package launchorder_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/launchorder"
)

// state is the state of a container in a test case.
type state string

const (
	absent   state = "absent" // not reported by the Node
	unready  state = "unready"
	ready    state = "ready"
	endedOK  state = "ended 0"
	endedBad state = "ended 1"
	backOff  state = "back-off" // has ended with exit code 0, and is started again
	missing  state = "config error"
)

func (s state) status(name string) corev1.ContainerStatus {
	out := corev1.ContainerStatus{Name: name, Ready: s == ready}
	switch s {
	case endedOK, endedBad:
		out.State.Terminated = &corev1.ContainerStateTerminated{}
		if s == endedBad {
			out.State.Terminated.ExitCode = 1
		}
	case backOff:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		out.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
	case missing:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}
	default:
		out.State.Running = &corev1.ContainerStateRunning{}
	}
	return out
}

// starting returns an admitted Pod with the containers high (priority 2), low (1) and lowest (0) in the given states.
func starting(t *testing.T, high, low, lowest state) *corev1.Pod {
	t.Helper()
	pod := newPod(container("lowest"), container("high", "PRIORITY=2"), container("low", "PRIORITY=1"))
	if _, err := newOrder(t).Inject(pod, ""); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]state{"high": high, "low": low, "lowest": lowest} {
		if s != absent {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s.status(name))
		}
	}
	return pod
}

func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

func policy(p corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = p }
}

func completed(pod *corev1.Pod) { pod.Annotations = map[string]string{"example.com/launched": "true"} }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

// onExit returns a rule that restarts a container after an exit code.
func onExit(code int32) corev1.ContainerRestartRule {
	return corev1.ContainerRestartRule{
		Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
		},
	}
}

// own returns a function that gives a container of a Pod a restart policy and restart rules of its own.
func own(name string, p corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for i := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[i]; c.Name == name {
				c.RestartPolicy, c.RestartPolicyRules = &p, rules
			}
		}
	}
}

func TestNext(t *testing.T) {
	type answer struct {
		Open     []string
		Complete bool
		Waiting  []string // code and container
	}
	const never = corev1.RestartPolicyNever
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		opened []string
		want   answer
	}{
		{
			"LP-9 the highest first", starting(t, absent, absent, absent), nil,
			answer{[]string{"p_2"}, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"LP-10 started is not ready", starting(t, unready, missing, missing),
			[]string{"p_2"},
			answer{nil, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"LP-10 ready opens the next", starting(t, ready, missing, missing),
			[]string{"p_2"},
			answer{[]string{"p_1"}, false, []string{"LaunchNotReady spec.containers[low]"}},
		},
		{"LP-9 the last level completes", starting(t, ready, ready, missing), []string{"p_1", "p_2"}, answer{[]string{"p_0"}, true, nil}},
		{"LP-9 every key is open already", starting(t, ready, ready, unready), []string{"p_0", "p_1", "p_2"}, answer{nil, true, nil}},
		{"LP-9 all are ready", starting(t, ready, ready, ready), []string{"p_0", "p_1", "p_2"}, answer{nil, true, nil}},
		{"LP-11 a crash closes nothing", starting(t, unready, ready, ready), []string{"p_0", "p_1", "p_2"}, answer{nil, true, nil}},
		{
			"LP-10 a crash above holds up what has not started", starting(t, unready, ready, missing),
			[]string{"p_1", "p_2"},
			answer{nil, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"a lost ConfigMap is filled again", starting(t, ready, ready, unready), nil, answer{[]string{"p_2", "p_1", "p_0"}, true, nil},
		},
		{
			"a key that somebody removed is put back", starting(t, ready, ready, unready), []string{"p_0", "p_2"}, answer{[]string{"p_1"}, true, nil},
		},
		{
			"a key that somebody added lets nobody be forgotten", starting(t, unready, missing, unready),
			[]string{"p_0", "p_2"},
			answer{nil, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"LP-15 completed, and the ConfigMap is gone", with(starting(t, missing, unready, ready), completed), nil,
			answer{[]string{"p_2", "p_1", "p_0"}, true, nil},
		},
		{
			"LP-17 ended well, in a Pod that never restarts", with(starting(t, endedOK, missing, missing), policy(never)),
			[]string{"p_2"},
			answer{[]string{"p_1"}, false, []string{"LaunchNotReady spec.containers[low]"}},
		},
		{
			"LP-17 ended well, restarted on failure alone", with(starting(t, endedOK, missing, missing), policy(corev1.RestartPolicyOnFailure)),
			[]string{"p_2"},
			answer{[]string{"p_1"}, false, []string{"LaunchNotReady spec.containers[low]"}},
		},
		{
			"LP-17 ended well, but will be started again", with(starting(t, endedOK, missing, missing), policy(corev1.RestartPolicyAlways)),
			[]string{"p_2"},
			answer{nil, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"LP-17 ended well, and is started again", with(starting(t, backOff, missing, missing), policy(corev1.RestartPolicyAlways)),
			[]string{"p_2"},
			answer{nil, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"LP-17 failed, and will be started again", with(starting(t, endedBad, missing, missing), policy(corev1.RestartPolicyOnFailure)),
			[]string{"p_2"},
			answer{nil, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"LP-17 failed for good", with(starting(t, endedBad, missing, missing), policy(never)),
			[]string{"p_2"},
			answer{nil, false, []string{"LaunchFailed spec.containers[high]"}},
		},
		{
			"LP-17 a policy of its own", with(starting(t, endedOK, missing, missing), own("high", corev1.ContainerRestartPolicyNever)),
			[]string{"p_2"},
			answer{[]string{"p_1"}, false, []string{"LaunchNotReady spec.containers[low]"}},
		},
		{
			"LP-17 rules of its own start it again",
			with(starting(t, endedOK, missing, missing), own("high", corev1.ContainerRestartPolicyNever, onExit(0))),
			[]string{"p_2"},
			answer{nil, false, []string{"LaunchNotReady spec.containers[high]"}},
		},
		{
			"LP-17 rules of its own are for another exit code",
			with(starting(t, endedOK, missing, missing), own("high", corev1.ContainerRestartPolicyNever, onExit(42))),
			[]string{"p_2"},
			answer{[]string{"p_1"}, false, []string{"LaunchNotReady spec.containers[low]"}},
		},
		{"a Pod on its way out", with(starting(t, absent, absent, absent), terminating), nil, answer{}},
		{"LP-12 no barrier", newPod(container("a"), container("b")), nil, answer{Complete: true}},
		{"LP-16 a literal", newPod(container("a", "BARRIER=x"), container("b", "BARRIER=web-barrier/p")), nil, answer{Complete: true}},
		{"a barrier in another ConfigMap", newPod(container("a", "BARRIER=mine/p_1"), container("b")), nil, answer{Complete: true}},
		{
			"equal priorities start together", newPod(container("a", "BARRIER=web-barrier/p_1"), container("b", "BARRIER=web-barrier/p_0"), container("c", "BARRIER=web-barrier/p_1")), nil,
			answer{[]string{"p_1"}, false, []string{"LaunchNotReady spec.containers[a]", "LaunchNotReady spec.containers[c]"}},
		},
		{
			"the key is that of the container", newPod(container("a", "BARRIER=web-barrier/p_01"), container("b", "BARRIER=web-barrier/p_1")), nil,
			answer{[]string{"p_01", "p_1"}, true, nil},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opened := map[string]string{}
			for _, key := range tc.opened {
				opened[key] = launchorder.True
			}
			before := tc.pod.DeepCopy()
			step := newOrder(t).Next(tc.pod, opened)
			got := answer{Open: step.Open, Complete: step.Complete}
			for _, r := range step.Waiting {
				got.Waiting = append(got.Waiting, string(r.Code)+" "+r.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.pod); diff != "" {
				t.Errorf("the Pod was changed:\n%s", diff)
			}
		})
	}
}

func TestNeeded(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"LP-8 containers wait", starting(t, absent, absent, absent), true},
		{"LP-8 all are ready, but not marked", starting(t, ready, ready, ready), true},
		{"LP-11 marked", with(starting(t, unready, ready, ready), completed), false},
		{"LP-15 marked, but the ConfigMap is missed", with(starting(t, ready, missing, ready), completed), true},
		{"LP-8 a mark that is not true", with(starting(t, ready, ready, ready), func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{"example.com/launched": "false"}
		}), true},
		{"terminating", with(starting(t, absent, absent, absent), terminating), false},
		{"ended", with(starting(t, absent, absent, absent), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }), false},
		{"no barrier", newPod(container("a"), container("b")), false},
		{"a barrier in another ConfigMap", newPod(container("a", "BARRIER=mine/p_1"), container("b")), false},
		{"LP-16 a literal", newPod(container("a", "BARRIER=p_1"), container("b")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := newOrder(t).Needed(tc.pod); got != tc.want {
				t.Errorf("Needed = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestMisses(t *testing.T) {
	open := map[string]string{"p_2": "", "p_1": launchorder.True}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"LP-7 what is not open is not missed", starting(t, ready, ready, missing), false},
		{"LP-15 what is open is", starting(t, ready, missing, missing), true},
		{"a key without value is open", starting(t, missing, ready, ready), true},
		{"all have started", starting(t, ready, unready, ready), false},
		{"nothing is reported", starting(t, absent, absent, absent), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := newOrder(t).Misses(tc.pod, open); got != tc.want {
				t.Errorf("Misses = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	pod := starting(t, ready, ready, ready)
	pod.UID = "u1"
	change := newOrder(t).Completion(pod)
	if change.UID != "u1" || change.Annotations["example.com/launched"] == nil || *change.Annotations["example.com/launched"] != "true" {
		t.Errorf("change %+v does not mark the Pod", change)
	}
}
