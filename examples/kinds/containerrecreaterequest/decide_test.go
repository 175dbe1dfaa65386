package containerrecreaterequest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

type (
	object    = v1beta1.ContainerRecreateRequest
	snapshots = []v1beta1.ContainerRecreateRequestContainerStatus
)

// second returns the time n seconds after a fixed start. All requests are created before this time.
func second(n int) time.Time { return time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC) }

func at(n int) metav1.Time { return metav1.NewTime(second(n)) }

// accepted returns a request for containers of runningPod, as admission stores the request, after edits.
func accepted(edits ...func(*object)) *object {
	obj := request("app", "log")
	obj.UID, obj.CreationTimestamp = "r1", at(0)
	api.Default(obj)
	complete(obj, runningPod(), nil)
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func phase(phase v1beta1.ContainerRecreateRequestPhase) func(*object) {
	return func(obj *object) { obj.Status.Phase = phase }
}

func deadline(n int64) func(*object) {
	return func(obj *object) { obj.Spec.ActiveDeadlineSeconds = &n }
}

func ttl(n int32) func(*object) {
	return func(obj *object) { obj.Spec.TTLSecondsAfterFinished = &n }
}

func unready(obj *object) { obj.Spec.Strategy.UnreadyGracePeriodSeconds = new(int64(5)) }

func completed(n int) func(*object) {
	return func(obj *object) {
		obj.Status.Phase, obj.Status.CompletionTime = "Completed", new(at(n))
	}
}

func deleted(obj *object) { obj.DeletionTimestamp = new(at(1)) }

func holding(obj *object) { obj.Finalizers = []string{"other", apps.FinalizerRequestUnreadyAcquired} }

func inactive(obj *object) { delete(obj.Labels, apps.LabelRequestActive) }

// graced adds to a request the condition PreRecreateGrace, which says since when the Pod is not ready.
func graced(status metav1.ConditionStatus, since metav1.Time) func(*object) {
	return func(obj *object) {
		obj.Status.Conditions = append(obj.Status.Conditions, metav1.Condition{Type: "PreRecreateGrace", Status: status, Reason: "PreRecreateGrace", LastTransitionTime: since})
	}
}

// podWith returns runningPod after edits.
func podWith(edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := runningPod()
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func gated(pod *corev1.Pod) {
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}}
}

// runs sets the running instances of the Pod's containers.
func runs(instances ...corev1.ContainerStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.ContainerStatuses = instances }
}

// instance returns the status of a running instance of a container.
func instance(name, id string, ready bool, restarts int32, since int) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, ContainerID: id, Ready: ready, RestartCount: restarts,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(since)}},
	}
}

// decided returns the plan for a request and its Pod at a time.
func decided(obj *object, pod *corev1.Pod, now time.Time, rivals ...*object) plan {
	s, problems, _ := resolve(&obj.Spec)
	return decide(&observed{request: obj, settings: s, problems: problems, pod: pod, rivals: append(rivals, obj), now: now})
}

// outcome contains the parts of a plan that a table compares.
type outcome struct {
	Phase, Message string
	End            reason.Code
	Does           string // the writes besides the status
	After          time.Duration
}

func outcomeOf(p plan) outcome {
	var does []string
	for name, is := range map[string]bool{"holds": p.holds, "graces": p.graces, "releases": p.releases, "deactivates": p.deactivates, "removes": p.removes} {
		if is {
			does = append(does, name)
		}
	}
	slices.Sort(does)
	return outcome{string(p.status.Phase), p.status.Message, p.end.Code, strings.Join(does, " "), p.after}
}

func TestDecide(t *testing.T) {
	const gone, silent, late = "pod has gone", "daemon has not responded for a long time", "recreating has exceeded the activeDeadlineSeconds"
	end := func(message string, code reason.Code) outcome {
		return outcome{Phase: "Completed", Message: message, End: code}
	}
	for _, tc := range []struct {
		name string
		obj  *object
		pod  *corev1.Pod
		now  int
		want outcome
	}{
		{"CR-10 no Pod", accepted(), nil, 1, end(gone, PodGone)},
		{"CR-10 a Pod on its way out", accepted(phase("Recreating")), podWith(func(pod *corev1.Pod) { pod.DeletionTimestamp = new(at(1)) }), 1, end(gone, PodGone)},
		{"CR-10 another Pod of the name", accepted(phase("Recreating"), unready), podWith(gated, func(pod *corev1.Pod) { pod.UID = "u2" }), 1, end(gone, PodGone)},
		{"CR-10 a request that names no Pod by its UID", accepted(func(obj *object) { delete(obj.Labels, apps.LabelRequestPodUID) }), podWith(), 1, end(gone, PodGone)},
		{"CR-10 a Pod of another namespace", accepted(), podWith(func(pod *corev1.Pod) { pod.Namespace = "other" }), 1, end(gone, PodGone)},
		{"CR-10 a Pod that has ended", accepted(phase("Recreating"), unready), podWith(gated, func(pod *corev1.Pod) { pod.Status.Phase = "Failed" }), 1, end("pod has ended", PodEnded)},
		{"CR-10 a Pod that has ended, before its turn", accepted(phase("Pending")), podWith(func(pod *corev1.Pod) { pod.Status.Phase = "Failed" }), 1, outcome{Phase: "Pending"}},
		{"CR-10 a Pod whose sidecars are to be stopped", accepted(phase("Recreating")), podWith(func(pod *corev1.Pod) {
			pod.Status.Phase, pod.Status.Conditions = "Failed", []corev1.PodCondition{{Type: "SidecarTerminated", Status: "True"}}
		}), 1, outcome{Phase: "Recreating"}},
		{"CR-11 not yet", accepted(), podWith(), 59, outcome{After: time.Second}},
		{"CR-11 silent for a minute", accepted(), podWith(), 60, end(silent, AgentSilent)},
		{"CR-11 from a clock ahead", accepted(), podWith(), -300, outcome{After: time.Minute}},
		{"CR-11 an agent that has made a sign", accepted(phase("Pending")), podWith(), 3600, outcome{Phase: "Pending"}},
		{"CR-11 an agent that cannot see the request any more", accepted(phase("Recreating"), unready, inactive), podWith(gated), 5, end(silent, AgentSilent)},
		{"CR-12 not yet", accepted(phase("Recreating"), deadline(30)), podWith(), 29, outcome{Phase: "Recreating", After: time.Second}},
		{"CR-12 past the deadline", accepted(phase("Recreating"), deadline(30)), podWith(), 30, end(late, "DeadlineExceeded")},
		{"CR-12 past the deadline before its turn", accepted(phase("Pending"), deadline(30)), podWith(), 31, end(late, "DeadlineExceeded")},
		{"CR-12 the deadline before the silence", accepted(deadline(30)), podWith(), 10, outcome{After: 20 * time.Second}},
		{"CR-12 the silence before the deadline", accepted(deadline(90)), podWith(), 10, outcome{After: 50 * time.Second}},
		{"CR-12 a deadline beyond all times", accepted(phase("Pending"), deadline(1<<62)), podWith(), 10, outcome{Phase: "Pending", After: 9223372026 * time.Second}},
		{"CR-14 before its turn", accepted(phase("Pending"), unready), podWith(gated), 1, outcome{Phase: "Pending"}},
		{"CR-14 under way", accepted(phase("Recreating"), unready), podWith(gated), 1, outcome{Phase: "Recreating", Does: "graces holds"}},
		{"CR-14 a Pod without the gate", accepted(phase("Recreating"), unready), podWith(), 1, outcome{Phase: "Recreating", Does: "graces"}},
		{"CR-14 known", accepted(phase("Recreating"), unready, graced("True", at(0))), podWith(gated), 1, outcome{Phase: "Recreating", Does: "holds"}},
		{"CR-14 nobody asks for it", accepted(phase("Recreating")), podWith(gated), 1, outcome{Phase: "Recreating"}},
		{"CR-14 a condition that is not True", accepted(phase("Recreating"), unready, graced("False", at(0))), podWith(gated), 1, outcome{Phase: "Recreating", Does: "graces holds"}},
		{"CR-14 a condition without a time", accepted(phase("Recreating"), unready, graced("True", metav1.Time{})), podWith(gated), 1, outcome{Phase: "Recreating", Does: "graces holds"}},
		{"CR-15 completed", accepted(completed(5), unready, holding), podWith(gated), 6, outcome{Phase: "Completed", Does: "deactivates releases"}},
		{"CR-15 completed, nothing held", accepted(completed(5)), nil, 6, outcome{Phase: "Completed", Does: "deactivates"}},
		{"CR-15 all done, without a ttl", accepted(completed(5), inactive), nil, 6, outcome{Phase: "Completed"}},
		{"CR-15 before the ttl", accepted(completed(5), inactive, ttl(10)), nil, 14, outcome{Phase: "Completed", After: time.Second}},
		{"CR-15 after the ttl", accepted(completed(5), inactive, ttl(10)), nil, 15, outcome{Phase: "Completed", Does: "removes"}},
		{"CR-15 the Pod first, then the request", accepted(completed(5), ttl(0), holding), nil, 15, outcome{Phase: "Completed", Does: "deactivates releases"}},
		{"CR-15 no time of the end: now", accepted(phase("Completed"), inactive, ttl(10)), nil, 15, outcome{Phase: "Completed", After: 10 * time.Second}},
		{"CR-15 an end far ahead is now", accepted(completed(1e9), inactive, ttl(10)), nil, 15, outcome{Phase: "Completed", After: 10 * time.Second}},
		{"CR-15 an end before all times", accepted(completed(-1e9), inactive, ttl(10)), nil, 15, outcome{Phase: "Completed", Does: "removes"}},
		{"CR-15 deleted while under way", accepted(phase("Recreating"), unready, deleted, holding), podWith(gated), 6, outcome{Phase: "Recreating", Does: "deactivates releases"}},
		{"CR-15 deleted, and kept by others", accepted(completed(1), ttl(0), deleted, inactive), podWith(gated), 6, outcome{Phase: "Completed"}},
		{"CR-16 a completed request has no deadline", accepted(completed(5), inactive, deadline(10)), nil, 60, outcome{Phase: "Completed"}},
		{"CR-16 a phase that ends", accepted(phase("Failed"), unready, holding), podWith(gated), 6, outcome{Phase: "Failed", Does: "deactivates releases"}},
		{"CR-16 an unknown phase", accepted(phase("Odd"), unready, holding), podWith(gated), 6, outcome{Phase: "Odd", Does: "deactivates releases"}},
		{"CR-16 a time of the end is an end", accepted(completed(5), phase("Recreating"), unready), podWith(gated), 6, outcome{Phase: "Recreating", Does: "deactivates"}},
		{
			"CR-2 past admission", accepted(func(obj *object) { obj.Spec.Strategy.MinStartedSeconds = -1 }, ttl(0)), podWith(), 6,
			end("InvalidValue: spec.strategy.minStartedSeconds: -1: must be at least 0", "InvalidValue"),
		},
		{"CR-2 past admission, completed", accepted(completed(5), inactive, ttl(-1)), podWith(), 6, outcome{Phase: "Completed"}},
		{
			"CR-2 undecodable", accepted(phase("Recreating"), unready, func(obj *object) {
				obj.Spec.Undecodable = []decode.Problem{{Path: "spec.containers[0].ports", Detail: "a number out of range"}}
			}), podWith(gated), 6, end("Undecodable: spec.containers[0].ports: a number out of range; correct the value", "Undecodable"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			untouched := tc.obj.DeepCopy()
			p := decided(tc.obj, tc.pod, second(tc.now))
			if diff := cmp.Diff(tc.want, outcomeOf(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.want.End != "" && (p.status.CompletionTime == nil || !p.status.CompletionTime.Equal(new(at(tc.now)))) {
				t.Errorf("CR-16 completed at %v", p.status.CompletionTime)
			}
			if diff := cmp.Diff(untouched, tc.obj); diff != "" {
				t.Errorf("the request was modified:\n%s", diff)
			}
		})
	}
}

// TestWhyGone: the event contains more details than the message in the status. The message equals OpenKruise's
// message, because clients compare the text.
func TestWhyGone(t *testing.T) {
	other := podWith(func(pod *corev1.Pod) { pod.UID = "u2" })
	ending := podWith(func(pod *corev1.Pod) { pod.DeletionTimestamp = new(at(1)) })
	virtual := accepted(func(obj *object) { obj.Labels[apps.LabelNodeType] = apps.NodeTypeVirtualKubelet })
	for _, tc := range []struct {
		name string
		obj  *object
		pod  *corev1.Pod
		want string
	}{
		{"CR-10 no Pod", accepted(), nil, "PodGone: Pod web-0: does not exist"},
		{"CR-10 another Pod", accepted(), other, "PodGone: Pod web-0: u1 -> u2: another Pod has the name"},
		{"CR-10 on its way out", accepted(), ending, "PodGone: Pod web-0: is being deleted"},
		{"CR-10 no label", accepted(func(obj *object) { obj.Labels = nil }), podWith(), "PodGone: Pod web-0: is not known to be the Pod of the request, " +
			"which has no label crr.apps.kruise.io/pod-uid; let the webhook see new requests"},
		{"CR-11 a Node", accepted(), podWith(), "AgentSilent: Node node-1: has no node agent that takes requests up; see whether the agent runs there"},
		{"CR-11 no label for agents", accepted(inactive), podWith(), "AgentSilent: Node node-1: has an agent that cannot see the request, " +
			"whose label crr.apps.kruise.io/active is not true; make another request"},
		{"CR-11 a virtual Node", virtual, podWith(), "AgentSilent: Node node-1: is virtual, and has no node agent; delete the Pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decided(tc.obj, tc.pod, second(60)).end.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSnapshot(t *testing.T) {
	one := func(name, id string, ready bool, restarts int32) snapshots {
		return snapshots{{Name: name, Ready: ready, RestartCount: restarts, ContainerID: id}}
	}
	noContext := func(obj *object) {
		for i := range obj.Spec.Containers {
			obj.Spec.Containers[i].StatusContext = nil
		}
	}
	ended := instance("app", "containerd://a2", false, 1, 5)
	ended.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	before := one("app", "containerd://a1", false, 1)
	for _, tc := range []struct {
		name      string
		edit      func(*object)
		instances []corev1.ContainerStatus
		before    snapshots
		want      snapshots
	}{
		{"CR-13 the old instances", nil, []corev1.ContainerStatus{instance("app", "containerd://a", true, 0, -60), instance("log", "containerd://b", true, 2, -60)}, nil, nil},
		{"CR-13 a new instance", nil, []corev1.ContainerStatus{instance("app", "containerd://a2", true, 1, 5)}, nil, one("app", "containerd://a2", true, 1)},
		{"CR-13 a new instance by a clock behind", nil, []corev1.ContainerStatus{instance("app", "containerd://a2", false, 1, -30)}, nil, one("app", "containerd://a2", false, 1)},
		{"CR-13 the old instance by a clock ahead", nil, []corev1.ContainerStatus{instance("app", "containerd://a", true, 0, 30)}, nil, nil},
		{"CR-13 without a known instance, started before", noContext, []corev1.ContainerStatus{instance("app", "containerd://a", true, 0, -1)}, nil, nil},
		{"CR-13 without a known instance, started then", noContext, []corev1.ContainerStatus{instance("app", "containerd://a", true, 0, 0)}, nil, one("app", "containerd://a", true, 0)},
		{"CR-13 an instance that does not run", nil, []corev1.ContainerStatus{ended}, nil, nil},
		{"CR-13 nothing does not overwrite", nil, []corev1.ContainerStatus{ended}, before, before},
		{"CR-13 another instance does", nil, []corev1.ContainerStatus{instance("app", "containerd://a2", true, 2, 7)}, before, one("app", "containerd://a2", true, 2)},
		{"CR-13 containers that nobody asks for", nil, []corev1.ContainerStatus{instance("side", "containerd://s2", true, 1, 5)}, nil, nil},
		{"CR-13 no instance", nil, []corev1.ContainerStatus{instance("app", "", true, 1, 5)}, nil, nil},
		{"4.9 an ID of any length", nil, []corev1.ContainerStatus{instance("app", "containerd://"+strings.Repeat("a", 1<<20), true, 1, 5)}, before, before},
		{
			"4.9 a name twice",
			nil,
			[]corev1.ContainerStatus{instance("app", "containerd://a2", true, 1, 5), instance("app", "containerd://a3", true, 1, 5)},
			nil,
			one("app", "containerd://a3", true, 1),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := accepted(phase("Recreating"))
			if tc.edit != nil {
				tc.edit(obj)
			}
			obj.Status.ContainerStatusSnapshot = tc.before
			p := decided(obj, podWith(runs(tc.instances...)), second(10))
			if diff := cmp.Diff(tc.want, p.status.ContainerStatusSnapshot); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			obj.Status.Phase = "Pending"
			if diff := cmp.Diff(tc.before, decided(obj, podWith(runs(tc.instances...)), second(10)).status.ContainerStatusSnapshot); diff != "" {
				t.Errorf("CR-13 before its turn (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithGrace(t *testing.T) {
	other := metav1.Condition{Type: "Other", Status: "True"}
	want := []metav1.Condition{other, {Type: "PreRecreateGrace", Status: "True", Reason: "PreRecreateGrace", LastTransitionTime: at(3)}}
	for name, before := range map[string][]metav1.Condition{
		"CR-14 none":        {other},
		"CR-14 not True":    {{Type: "PreRecreateGrace", Status: "Unknown", Reason: "X", Message: "y", LastTransitionTime: at(1)}, other},
		"CR-14 no time yet": {other, {Type: "PreRecreateGrace", Status: "True"}},
	} {
		if diff := cmp.Diff(want, withGrace(before, second(3))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTrim: each write of the status removes everything except the states of the request's containers, whatever a
// hostile Node has written. The values of an honest agent are kept.
func TestTrim(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	honest := accepted(phase("Recreating"), deadline(3), graced("True", at(1)), func(obj *object) {
		obj.Status.ContainerRecreateStates = []v1beta1.ContainerRecreateRequestContainerRecreateState{
			{Name: "log", Phase: "Failed", Message: "why"}, {Name: "app", Phase: "Recreating", IsKilled: true},
		}
		obj.Status.ContainerStatusSnapshot = snapshots{{Name: "app", Ready: true, RestartCount: 1, ContainerID: "containerd://a1"}}
	})
	hostile := honest.DeepCopy()
	for range 10_000 {
		hostile.Status.ContainerRecreateStates = append(hostile.Status.ContainerRecreateStates, hostile.Status.ContainerRecreateStates[0], v1beta1.ContainerRecreateRequestContainerRecreateState{})
		hostile.Status.ContainerStatusSnapshot = append(hostile.Status.ContainerStatusSnapshot, snapshots{{Name: "app"}, {Name: "stranger"}}...)
		hostile.Status.Conditions = append(hostile.Status.Conditions, metav1.Condition{Type: fmt.Sprint("Odd", len(hostile.Status.Conditions)), Message: "x"})
	}
	hostile.Status.ContainerRecreateStates[0].Message, hostile.Status.Conditions[0].Message = long, long
	p := decided(hostile, podWith(), second(3))
	for i := range p.status.ContainerRecreateStates {
		s := &p.status.ContainerRecreateStates[i]
		if len(s.Message) > longestMessage+3 {
			t.Errorf("4.9 a message of %d bytes", len(s.Message))
		}
		s.Message = honest.Status.ContainerRecreateStates[i].Message
	}
	if len(p.status.Conditions) != 1 || len(p.status.Conditions[0].Message) > longestMessage+3 {
		t.Fatalf("4.9 %d conditions", len(p.status.Conditions))
	}
	p.status.Conditions[0].Message = ""
	if diff := cmp.Diff(decided(honest, podWith(), second(3)).status, p.status); diff != "" {
		t.Errorf("4.9 (-of an honest Node +of a hostile Node):\n%s", diff)
	}
	want := honest.Status
	want.Phase, want.Message, want.CompletionTime = "Completed", "recreating has exceeded the activeDeadlineSeconds", new(at(3))
	if diff := cmp.Diff(want, p.status); diff != "" {
		t.Errorf("4.9 (-want +got):\n%s", diff)
	}
}

// TestWait: the condition of a waiting request names the request that comes first.
func TestWait(t *testing.T) {
	rival := func(name string, created int, edits ...func(*object)) *object {
		return accepted(append(edits, func(obj *object) { obj.Name, obj.UID, obj.CreationTimestamp = name, types.UID(name), at(created) })...)
	}
	waits := func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Waiting", Status: "True", Reason: "BehindRequest", Message: message, LastTransitionTime: at(9)}}
	}
	const front = "ContainerRecreateRequest first: goes first"
	for _, tc := range []struct {
		name   string
		obj    *object
		rivals []*object
		want   []metav1.Condition
	}{
		{"CR-20 alone", accepted(phase("Pending")), nil, nil},
		{"CR-61 behind one without a deadline", accepted(phase("Pending")), []*object{rival("first", 5, phase("Recreating"))}, waits(front +
			", and has no deadline; wait for the end of ContainerRecreateRequest first, or delete it")},
		{"CR-61 behind one with a deadline", accepted(phase("Pending")), []*object{rival("first", 5, phase("Recreating"), deadline(60))}, waits(front + "; wait for the end of ContainerRecreateRequest first")},
		{"CR-61 behind an older one", accepted(phase("Pending")), []*object{rival("first", -5, phase("Pending"), deadline(60))}, waits(front + "; wait for the end of ContainerRecreateRequest first")},
		{"CR-61 before a younger one", accepted(phase("Pending")), []*object{rival("first", 5, phase("Pending"))}, nil},
		{"CR-61 under way", accepted(phase("Recreating")), []*object{rival("first", -5, phase("Pending"))}, nil},
		{"CR-61 the second under way", accepted(phase("Recreating")), []*object{rival("first", -5, phase("Recreating"), deadline(60))}, waits(front + "; wait for the end of ContainerRecreateRequest first")},
		{"CR-61 without a phase nothing can be stored", accepted(), []*object{rival("first", -5, phase("Recreating"))}, nil},
		{"CR-61 the front has ended", accepted(phase("Pending"), func(obj *object) { obj.Status.Conditions = waits("x") }), nil, nil},
		{"CR-61 since the first wait", accepted(phase("Pending"), func(obj *object) {
			obj.Status.Conditions = waits("x")
			obj.Status.Conditions[0].LastTransitionTime = at(2)
		}), []*object{rival("first", 5, phase("Recreating"), deadline(60))}, []metav1.Condition{{
			Type: "Waiting", Status: "True", Reason: "BehindRequest", Message: front + "; wait for the end of ContainerRecreateRequest first", LastTransitionTime: at(2),
		}}},
		{"CR-61 completed while it waited", accepted(phase("Pending"), deadline(3), func(obj *object) { obj.Status.Conditions = waits("x") }), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := decided(tc.obj, podWith(), second(9), tc.rivals...).status.Conditions
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyWait: if many requests wait, the end of a request changes only a few conditions.
func TestManyWait(t *testing.T) {
	var all []*object
	for i := range 40 {
		all = append(all, accepted(phase("Pending"), func(obj *object) {
			obj.Name, obj.UID, obj.CreationTimestamp = fmt.Sprintf("r-%02d", i), types.UID(fmt.Sprintf("u-%02d", i)), at(i)
		}))
	}
	messages := func(all []*object) map[string]string {
		out := map[string]string{}
		for _, obj := range all {
			for _, c := range decided(obj, podWith(), second(50), all...).status.Conditions {
				out[obj.Name] = c.Message
			}
		}
		return out
	}
	before, after, changed := messages(all), messages(all[1:]), 0
	for _, obj := range all[1:] {
		if before[obj.Name] != after[obj.Name] {
			changed++
		}
	}
	if before["r-01"] == "" || after["r-01"] != "" || before["r-39"] == "" || changed != inLine+1 {
		t.Errorf("CR-61 %d of 39 conditions changed:\n%s", changed, cmp.Diff(before, after))
	}
}

// FuzzDecide decides about requests whose status may come from a hostile Node. Only the request's own Pod is changed,
// and the time in the condition PreRecreateGrace stays the same. After a plan was carried out, the next plan contains
// no write. The plan depends on the input alone.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{}, 10)
	f.Add([]byte{2, 1, 1, 1, 3, 0, 0, 1}, 20)
	f.Add([]byte{2, 3, 1, 1, 3, 0, 1, 1, 9}, 1<<40)
	f.Add([]byte{5, 0, 255, 0, 3, 2, 1, 0}, -5)
	f.Add([]byte{1, 7, 4, 2, 6, 1, 1, 1, 7, 7}, 61)
	f.Fuzz(func(t *testing.T, data []byte, now int) {
		obj, pod, rivals := drawn(data)
		untouched, then := obj.DeepCopy(), time.Unix(second(0).Unix()+int64(now)%(1<<40), 0)
		p := decided(obj, pod, then, rivals...)
		if diff := cmp.Diff(untouched, obj); diff != "" {
			t.Errorf("the request was modified:\n%s", diff)
		}
		slices.Reverse(rivals)
		if diff := cmp.Diff(p, decided(obj, pod, then, rivals...), cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("decided again (-first +second):\n%s", diff)
		}
		checkPlan(t, obj, pod, &p)
		next := obj.DeepCopy()
		next.Status = p.status
		if p.graces {
			next.Status.Conditions = withGrace(next.Status.Conditions, then)
		}
		if p.releases {
			next.Finalizers = nil
		}
		if p.deactivates {
			delete(next.Labels, apps.LabelRequestActive)
		}
		q := decided(next, pod, then, rivals...)
		if p.end.Code == "" && (q.graces || q.releases || q.deactivates || q.end.Code != "" || !cmp.Equal(next.Status, q.status)) {
			t.Errorf("a second plan %+v after %+v", q, p)
		}
	})
}

// checkPlan checks a plan against its input.
func checkPlan(t *testing.T, obj *object, pod *corev1.Pod, p *plan) {
	t.Helper()
	own := pod != nil && pod.DeletionTimestamp == nil && string(pod.UID) == obj.Labels[apps.LabelRequestPodUID]
	over := api.HasEnded(&obj.Status) || obj.DeletionTimestamp != nil
	switch {
	case (p.holds || p.graces) && (!own || over || p.end.Code != "" || obj.Status.Phase != "Recreating" || obj.Spec.Strategy.UnreadyGracePeriodSeconds == nil):
		t.Errorf("the Pod is held: %+v", p)
	case (p.releases || p.deactivates || p.removes) && !over:
		t.Errorf("a request under way is cleaned up: %+v", p)
	case p.end.Code != "" && over, !own && !over && p.end.Code == "":
		t.Errorf("end %q of %+v", p.end, obj.Status)
	case len(p.status.ContainerStatusSnapshot) > max(len(obj.Spec.Containers), len(obj.Status.ContainerStatusSnapshot)):
		t.Errorf("snapshot %v", p.status.ContainerStatusSnapshot)
	case len(p.status.ContainerStatusSnapshot) < 1 && slices.ContainsFunc(obj.Status.ContainerStatusSnapshot, func(s v1beta1.ContainerRecreateRequestContainerStatus) bool { return s.Name == "app" }):
		t.Error("the snapshot was emptied")
	case p.after < 0 || p.removes && (p.releases || p.deactivates || obj.DeletionTimestamp != nil):
		t.Errorf("removed %+v", p)
	case p.status.Phase != obj.Status.Phase && p.end.Code == "":
		t.Errorf("phase %q", p.status.Phase)
	}
	for _, c := range obj.Status.Conditions {
		if hasGrace(&obj.Status) && c.Type == apps.ConditionPreRecreateGrace && !slices.Contains(p.status.Conditions, c) {
			t.Errorf("the time moves: %+v", p.status.Conditions)
		}
	}
}

// drawn returns a random request, perhaps its Pod, and other requests.
func drawn(data []byte) (*object, *corev1.Pod, []*object) {
	draw := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
	phases := []v1beta1.ContainerRecreateRequestPhase{"", "Pending", "Recreating", "Completed", "Failed", "Odd"}
	edits := []func(*object){func(*object) {}, unready, holding, completed(5), completed(1 << 32), deleted, inactive, ttl(3), deadline(30), graced("True", at(-1<<33))}
	obj := accepted(phase(phases[draw(len(phases))]))
	for range draw(5) {
		edits[draw(len(edits))](obj)
	}
	obj.Status.Conditions = slices.CompactFunc(obj.Status.Conditions, func(a, b metav1.Condition) bool { return a.Type == b.Type })
	for range draw(3) {
		obj.Status.ContainerStatusSnapshot = append(obj.Status.ContainerStatusSnapshot, snapshots{{Name: []string{"stranger", "app"}[draw(2)], ContainerID: "x"}}...)
	}
	pod := podWith(gated)
	switch draw(8) {
	case 0:
		pod = nil
	case 1:
		pod.UID = "u2"
	case 2:
		pod.DeletionTimestamp = new(at(1))
	case 3:
		pod.Spec.ReadinessGates = nil
	}
	if pod != nil {
		pod.Status.ContainerStatuses = nil
		for range draw(4) {
			name := []string{"app", "log", "stranger", ""}[draw(4)]
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, instance(name, fmt.Sprint("containerd://", draw(3)), draw(2) > 0, int32(draw(3)), draw(200)-100))
		}
	}
	var rivals []*object
	for i := range draw(4) {
		rivals = append(rivals, accepted(phase(phases[draw(3)]), func(obj *object) {
			obj.Name, obj.UID, obj.CreationTimestamp = fmt.Sprint("r", i), types.UID(fmt.Sprint("uid-", i)), at(draw(9)-4)
		}))
	}
	return obj, pod, rivals
}
