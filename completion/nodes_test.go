package completion_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/nodefit"
)

// on returns a running Pod on a Node, with the given edits.
func on(node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-" + node}, Spec: corev1.PodSpec{NodeName: node}}
	pod.Status.Phase = corev1.PodRunning
	for _, edit := range edits {
		edit(pod)
	}
	pod.UID = types.UID(pod.Name)
	return pod
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}

func named(name string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Name = name } }

func leaving(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: at(0)} }

func pinned(pod *corev1.Pod) {
	nodefit.Pin(&pod.Spec, pod.Spec.NodeName)
	pod.Spec.NodeName = ""
}

// restarted gives a Pod containers with the given restart counts. The first container is an init container.
func restarted(policy corev1.RestartPolicy, counts ...int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = policy
		for i, n := range counts {
			status := corev1.ContainerStatus{RestartCount: n}
			if i == 0 {
				pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
				continue
			}
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		}
	}
}

func TestStandingOf(t *testing.T) {
	const onFailure = corev1.RestartPolicyOnFailure
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want completion.Standing
	}{
		{"it runs", on("a"), completion.Active},
		{"BJ-9 it waits", on("a", phase(corev1.PodPending), pinned), completion.Active},
		{"BJ-9 it has ended well", on("a", phase(corev1.PodSucceeded)), completion.Succeeded},
		{"BJ-9 it has not", on("a", phase(corev1.PodFailed)), completion.Broken},
		{"BJ-9 it is being deleted", on("a", leaving), completion.Leaving},
		{"BJ-9 also if it has ended", on("a", leaving, phase(corev1.PodFailed)), completion.Leaving},
		{"BJ-9 restarts of all containers count", on("a", restarted(onFailure, 1, 1, 1)), completion.Looping},
		{"BJ-9 as many as may be", on("a", restarted(onFailure, 0, 1, 1)), completion.Active},
		{"BJ-9 another policy", on("a", restarted(corev1.RestartPolicyNever, 9, 9)), completion.Active},
		{"BJ-9 what has ended well has", on("a", restarted(onFailure, 9, 9), phase(corev1.PodSucceeded)), completion.Succeeded},
	} {
		if got := completion.StandingOf(c.pod, 2); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// survey is the part of a Survey that the tests compare.
type survey struct {
	Wanted, Done, Active, Succeeded, Failed int
	Missing, Running, Misplaced, Duplicates []string
}

func TestOnNodes(t *testing.T) {
	fits, sick, unfit := completion.Claim{Fits: true, Keeps: true}, completion.Claim{Keeps: true}, completion.Claim{}
	well, broken := phase(corev1.PodSucceeded), phase(corev1.PodFailed)
	type (
		claims = map[string]completion.Claim
		pods   = []*corev1.Pod
	)
	for _, c := range []struct {
		name   string
		claims claims
		pods   pods
		want   survey
	}{
		{"nothing", nil, nil, survey{}},
		{"BJ-3 one for each that fits", claims{"b": fits, "a": fits, "c": unfit, "d": sick}, nil, survey{Wanted: 2, Missing: []string{"a", "b"}}},
		{
			"BJ-9 what has become of them",
			claims{"a": fits, "b": fits, "c": fits, "d": fits},
			pods{on("a"), on("b", well), on("c", broken), on("d", restarted(corev1.RestartPolicyOnFailure, 3))},
			survey{Wanted: 4, Done: 3, Active: 1, Succeeded: 1, Failed: 2, Running: []string{"pod-a active", "pod-d"}},
		},
		{"BJ-15 one that is deleted is in the way of another", claims{"a": fits}, pods{on("a", leaving)}, survey{Wanted: 1}},
		{"BJ-4 it waits for its Node", claims{"a": fits}, pods{on("a", pinned)}, survey{Wanted: 1, Active: 1, Running: []string{"pod-a active"}}},
		{
			"BJ-4 two on a Node, which is done when both are",
			claims{"a": fits},
			pods{on("a", well), on("a", named("twin"))},
			survey{Wanted: 1, Active: 1, Succeeded: 1, Running: []string{"twin active"}, Duplicates: []string{"a"}},
		},
		{
			"BJ-17 the Node does not fit any more",
			claims{"a": unfit, "b": unfit, "c": unfit},
			pods{on("a"), on("b", well), on("c", leaving)},
			survey{Wanted: 1, Done: 1, Active: 1, Succeeded: 1, Running: []string{"pod-a active NodeUnfit"}, Misplaced: []string{"pod-a active NodeUnfit"}},
		},
		{
			"BJ-17 its health is in doubt",
			claims{"a": sick, "b": sick, "c": sick},
			pods{on("a"), on("b", pinned)},
			survey{Wanted: 1, Active: 2, Running: []string{"pod-a active", "pod-b active NodeUnfit"}, Misplaced: []string{"pod-b active NodeUnfit"}},
		},
		{"BJ-17 the Node is gone", nil, pods{on("a")}, survey{Active: 1, Running: []string{"pod-a active NodeGone"}, Misplaced: []string{"pod-a active NodeGone"}}},
		{
			"a Pod that is for no Node",
			claims{"a": fits},
			pods{on(""), on("", named("other"))},
			survey{Wanted: 1, Active: 2, Missing: []string{}, Running: []string{"other active", "pod- active"}},
		},
		{
			"a Pod that is for no Node may be about to run on one",
			claims{"a": fits, "b": fits, "c": fits},
			pods{on("")},
			survey{Wanted: 3, Active: 1, Missing: []string{"a", "b"}, Running: []string{"pod- active"}},
		},
		{
			"the Node is gone, and the garbage collector of Pods has ended its Pod", nil,
			pods{on("a", func(pod *corev1.Pod) {
				pod.Status.Phase = corev1.PodFailed
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
			})},
			survey{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			look := func() survey {
				s := completion.OnNodes(c.pods, c.claims, 2)
				list := func(of []completion.Unfinished) (names []string) {
					for _, one := range of {
						name := one.Name
						if one.Active {
							name += " active"
						}
						if one.Why != "" {
							name += " " + string(one.Why)
						}
						names = append(names, name)
					}
					return names
				}
				return survey{
					Wanted: s.Wanted, Done: s.Done, Active: s.Active, Succeeded: s.Succeeded, Failed: s.Failed,
					Missing: s.Missing, Running: list(s.Running), Misplaced: list(s.Misplaced), Duplicates: s.Duplicates,
				}
			}
			got := look()
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			slices.Reverse(c.pods)
			if diff := cmp.Diff(got, look()); diff != "" {
				t.Errorf("another order, another survey:\n%s", diff)
			}
		})
	}
}
