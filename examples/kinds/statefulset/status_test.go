package statefulset

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// TestNextStatus checks the numbers of Pods and claims in the status.
func TestNextStatus(t *testing.T) {
	type counts = v1beta1.StatefulSetStatus
	for _, tc := range []struct {
		name string
		in   situation
		want counts
	}{
		{
			"S-23 Pods that are not wanted count, those that are terminating or have ended are of no revision",
			situation{set: db(3), pods: "0 old, 1 new, 2 new down, 3 new terminating, 4 old, 5 new failed down"},
			counts{Replicas: 6, ReadyReplicas: 4, AvailableReplicas: 3, CurrentReplicas: 2, UpdatedReplicas: 2, UpdatedReadyReplicas: 1, UpdatedAvailableReplicas: 1},
		},
		{
			"S-23 a Pod that nobody has looked at yet",
			situation{set: db(1), pods: "0 new pending"},
			counts{Replicas: 1, UpdatedReplicas: 1},
		},
		{
			"L-10 ready and in the middle of something",
			situation{set: db(3), pods: "0 old held, 1 new updating, 2 new closed"},
			counts{Replicas: 3, ReadyReplicas: 2, CurrentReplicas: 1, UpdatedReplicas: 2, UpdatedReadyReplicas: 1},
		},
		{
			"S-33 claims that ask for enough, and those of them that have it",
			situation{
				set: db(5, follow("2Gi")), pods: "0-3 new, 4 new terminating",
				claims: "0 1Gi, 1 2Gi/1Gi, 2 3Gi, 3 2Gi slow, 4 2Gi, 7 2Gi",
			},
			counts{
				Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 4, UpdatedReplicas: 4, UpdatedReadyReplicas: 4, UpdatedAvailableReplicas: 4,
				VolumeClaims: []v1beta1.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 2, CompatibleReadyReplicas: 1}},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.ObservedGeneration, tc.want.CurrentRevision, tc.want.UpdateRevision, tc.want.LabelSelector = 7, "db-1", "db-2", "app=db"
			got := nextStatus(observe(t, tc.in), &todo{}, metav1.NewTime(decidedAt), nil, nil)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("S-22 S-23 equal revisions have equal numbers", func(t *testing.T) {
		o := observe(t, situation{set: db(2), pods: "0-1 new"})
		o.current = o.update
		got := nextStatus(o, &todo{}, metav1.NewTime(decidedAt), nil, nil)
		if got.CurrentReplicas != 2 || got.UpdatedReplicas != 2 || got.CurrentRevision != got.UpdateRevision {
			t.Errorf("status %+v", got)
		}
	})
}

// TestConditions: a condition exists as long as its error exists, and changes when the error changes. Conditions also
// report probably unintended values in the spec.
func TestConditions(t *testing.T) {
	set := db(1, budget("100%"), rolling(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.MinReadySeconds = ptr.To[int32](-1) }))
	earlier := metav1.NewTime(decidedAt.Add(-1))
	set.Status.Conditions = v1beta1.Conditions{
		{Type: apps.ConditionFailedCreatePod, Status: corev1.ConditionTrue, Reason: "Old", Message: "an earlier one", LastTransitionTime: earlier},
		{Type: apps.ConditionFailedUpdatePod, Status: corev1.ConditionTrue, Reason: "Gone", LastTransitionTime: earlier},
		{Type: apps.ConditionInvalidSpec, Status: corev1.ConditionTrue, Reason: "Gone", LastTransitionTime: earlier},
	}
	why := reason.Reason{Code: "NameTaken", Object: reason.Object{Kind: "Pod", Namespace: "default", Name: "db-0"}, Detail: "it is somebody else's"}
	set.Status.Conditions = append(set.Status.Conditions, v1beta1.Condition{Type: apps.ConditionWaiting, Status: corev1.ConditionTrue, Reason: "Gone"})
	before := set.DeepCopy()
	got := nextStatus(observe(t, situation{set: set}), &todo{}, metav1.NewTime(decidedAt), errors.Join(why), nil)
	want := v1beta1.Conditions{
		{
			Type: apps.ConditionFailedCreatePod, Status: corev1.ConditionTrue, Reason: "NameTaken", LastTransitionTime: earlier,
			Message: "Pod default/db-0: it is somebody else's",
		},
		{
			Type: apps.ConditionOddSpec, Status: corev1.ConditionTrue, Reason: "OddValue", LastTransitionTime: metav1.NewTime(decidedAt),
			Message: "spec.updateStrategy.rollingUpdate.minReadySeconds: -1: read as 0; use 0 or more",
		},
	}
	if diff := cmp.Diff(want, got.Conditions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("the StatefulSet was changed (-before +after):\n%s", diff)
	}
}

// TestWaiting: a condition reports everything that delays a rollout, except delays that the spec itself asks for.
func TestWaiting(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   situation
		want string // a part of the message
	}{
		{"in order, behind one that terminates", situation{set: db(3, inOrder), pods: "0-1 old, 2 old terminating"}, "Pod default/db-2: the Pod of ordinal 2 is terminating"},
		{"one that terminates", situation{set: db(3, budget("1")), pods: "0-1 old, 2 old terminating"}, "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		{"a hook", situation{set: db(3, inOrder), pods: "0-1 old, 2 old held"}, "Pod default/db-2: the Pod of ordinal 2 waits for a hook; release the hook that holds it"},
		{"in order, behind one that is not ready", situation{set: db(3, inOrder), pods: "0 new, 1 new down"}, "Pod default/db-1: the Pod of ordinal 1 is not available (ContainersNotReady: a probe); wait until it is available, or delete it"},
		{"in order, with those that are to go", situation{set: db(0, inOrder), pods: "0-1 new down"}, "Pod default/db-1: the Pod of ordinal 1 is not available, nor is that of 0; both are to go (ContainersNotReady: a probe); wait until"},
		{"a partition", situation{set: db(3, keep(3)), pods: "0-2 old"}, ""},
		{"a pause", situation{set: db(3, rolling(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.Paused = true })), pods: "0-2 old"}, ""},
		{"Pods without the claim of a template", situation{set: db(2, claims("1Gi")), pods: "0 new, 1 new bare"}, "spec.volumeClaimTemplates[data]: Pods at the update revision without its claim: 1, the first is db-1"},
		{"nothing", situation{set: db(3), pods: "0-2 new"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := observe(t, tc.in)
			todo, err := decide(o)
			if err != nil {
				t.Fatal(err)
			}
			status, got := nextStatus(o, todo, metav1.NewTime(decidedAt), nil, nil), ""
			if c := status.Conditions.Find(apps.ConditionWaiting); c != nil {
				got = c.Message
			}
			if !strings.HasPrefix(got, tc.want) || got != "" && tc.want == "" {
				t.Errorf("waiting: %q, want %q", got, tc.want)
			}
		})
	}
}

// TestResolveRefuses: for an invalid spec that was stored without admission, resolve returns the paths and values,
// and no settings.
func TestResolveRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit edit
		path string // and the value
	}{
		{"S-6 a range that runs backwards", reserve("1", "7-3"), `spec.reserveOrdinals[1] "7-3"`},
		{"S-6 a range that is too large to count", reserve("0-2147483648"), `spec.reserveOrdinals[0] "0-2147483648"`},
		{"S-6 letters", reserve("a-b"), `spec.reserveOrdinals[0] "a-b"`},
		{"S-6 nothing", func(set *v1beta1.StatefulSet) { set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString("")} }, `spec.reserveOrdinals[0] ""`},
		{"S-6 half a range", reserve("1-"), `spec.reserveOrdinals[0] "1-"`},
		{"S-6 the other half", func(set *v1beta1.StatefulSet) {
			set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString("-3")}
		}, `spec.reserveOrdinals[0] -3`},
		{"S-6 three parts", reserve("1-2-3"), `spec.reserveOrdinals[0] "1-2-3"`},
		{"S-6 more digits than any number has", reserve("99999999999999999999"), `spec.reserveOrdinals[0] "99999999999999999999"`},
		{"no room above the start", from(2147483647), `spec.replicas 2`},
		{"no room beside what is reserved", reserve("1-2147483647"), `spec.replicas 2`},
		{"a negative start", from(-1), `spec.ordinals.start -1`},
		{"negative replicas", func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](-1) }, `spec.replicas -1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gates := map[apps.Gate]bool{apps.GateStatefulSetStartOrdinal: true}
			_, faults, _ := resolve(db(2, tc.edit), gates)
			problems := faults.Reasons()
			if len(problems) != 1 {
				t.Fatalf("problems %v", problems)
			}
			if got := problems[0].Path + " " + problems[0].New; got != tc.path {
				t.Errorf("it is about %q, want %q", got, tc.path)
			}
			if problems[0].Detail == "" {
				t.Errorf("it does not say why: %v", problems)
			}
		})
	}
	for name, tc := range map[string]struct {
		edit edit
		want string
	}{
		"S-2 ranges that overlap":           {reserve("3-9", "5-20", "4", "0003-005"), "0-1"},
		"S-2 a range that is huge":          {reserve("0-2000000000"), "2000000001-2000000002"},
		"S-2 the largest numbers there are": {from(2147483646), "2147483646-2147483647"},
	} {
		t.Run(name, func(t *testing.T) {
			s, problems, _ := resolve(db(2, tc.edit), map[apps.Gate]bool{apps.GateStatefulSetStartOrdinal: true})
			if len(problems) > 0 {
				t.Fatal(problems.Reasons())
			}
			if got := s.rollout.Wanted.String(); got != tc.want {
				t.Errorf("Pods of %s are wanted, want %s", got, tc.want)
			}
		})
	}
}
