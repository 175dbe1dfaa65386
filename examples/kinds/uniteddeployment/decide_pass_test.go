package uniteddeployment

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/subsets"
)

// owned returns a CloneSet of a subset.
func owned(name, subset string, ready int32, age time.Duration) *v1beta1.CloneSet {
	return &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1_000_000, 0).Add(-age)),
			Labels: map[string]string{apps.LabelSubsetName: subset, apps.LabelSubsetRevision: "web-1"},
		},
		Spec:   v1beta1.CloneSetSpec{Replicas: new(int32(3))},
		Status: v1beta1.CloneSetStatus{ReadyReplicas: ready},
	}
}

func leaving(w *v1beta1.CloneSet) *v1beta1.CloneSet {
	w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_000_000, 0)}
	return w
}

func names[W workload](list []W) (out []string) {
	for _, w := range list {
		out = append(out, w.GetName())
	}
	slices.Sort(out)
	return out
}

// passOn returns the decision for the given workloads and Pods.
func passOn(t testing.TB, ud *v1beta1.UnitedDeployment, pods []*corev1.Pod, workloads ...workload) *todo {
	t.Helper()
	return decide(&observation{
		ud: ud, settings: mustResolve(t, ud), revision: "web-1", workloads: workloads, now: time.Unix(2_000_000, 0),
		pods: func(types.UID) []*corev1.Pod { return pods },
	})
}

// TestWorkloadsOfSubsets: a subset keeps a single workload. Workloads of removed subsets and of another kind are
// deleted.
func TestWorkloadsOfSubsets(t *testing.T) {
	other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{apps.LabelSubsetName: "a"}}}
	for _, c := range []struct {
		name                            string
		workloads                       []workload
		kept, created, surplus, removed []string
	}{
		{"UD-13 none", nil, nil, []string{"a", "b"}, nil, nil},
		{"UD-13 all", []workload{owned("1", "a", 0, 0), owned("2", "b", 0, 0)}, []string{"1", "2"}, nil, nil, nil},
		{"UD-13 a subset is gone", []workload{owned("1", "a", 0, 0), owned("2", "b", 0, 0), owned("3", "c", 9, 0)}, []string{"1", "2"}, nil, nil, []string{"3"}},
		{"UD-13 another kind", []workload{other, owned("2", "b", 0, 0)}, []string{"2"}, []string{"a"}, nil, []string{"other"}},
		{"UD-60 most ready Pods", []workload{owned("1", "a", 1, 9), owned("2", "a", 2, 0), owned("3", "b", 0, 0), owned("4", "a", 0, 99)}, []string{"2", "3"}, nil, []string{"1", "4"}, nil},
		{"UD-60 the oldest of equals", []workload{owned("1", "a", 1, 0), owned("2", "a", 1, time.Hour), owned("3", "b", 0, 0)}, []string{"2", "3"}, nil, []string{"1"}, nil},
		{"UD-60 the first name of equals", []workload{owned("2", "a", 1, 0), owned("1", "a", 1, 0), owned("3", "b", 0, 0)}, []string{"1", "3"}, nil, []string{"2"}, nil},
		{"a leaving workload is not kept for its Pods", []workload{leaving(owned("1", "a", 3, 0)), owned("2", "a", 0, 0), owned("3", "b", 0, 0)}, []string{"2", "3"}, nil, nil, nil},
		{"a leaving workload is awaited", []workload{leaving(owned("1", "a", 3, 0)), owned("3", "b", 0, 0)}, []string{"1", "3"}, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := passOn(t, small(t), nil, c.workloads...)
			var kept []workload
			var created []string
			for _, p := range got.subsets {
				if p.have != nil {
					kept = append(kept, p.have)
				}
				if p.create != nil {
					created = append(created, p.spec.Name)
				}
			}
			want := [][]string{c.kept, c.created, c.surplus, c.removed}
			if diff := cmp.Diff(want, [][]string{names(kept), created, names(got.surplus), names(got.gone)}); diff != "" {
				t.Errorf("kept, created, surplus, gone (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLeavingWorkload: a workload that is being deleted is not changed, and the reason says that the subset waits for
// the deletion.
func TestLeavingWorkload(t *testing.T) {
	got := passOn(t, small(t), nil, leaving(owned("1", "a", 3, 0)), owned("3", "b", 0, 0)).subsets[0]
	if got.change != nil || got.create != nil || !errors.Is(got.why, WorkloadEnding) {
		t.Errorf("%+v", got)
	}
}

// TestUndividable: no workload is changed while the replicas of the subsets do not add up to spec.replicas.
func TestUndividable(t *testing.T) {
	ud := small(t, in(subsetA, "replicas: 9")...)
	got := passOn(t, ud, nil, owned("1", "a", 3, 0), owned("3", "c", 0, 0))
	if !errors.Is(got.err, subsets.SharesExceed) || len(got.gone)+len(got.surplus) > 0 || !strings.Contains(got.err.Error(), "lower a share, or raise spec.replicas") {
		t.Errorf("UD-18 %v, %v", got.err, names(got.gone))
	}
	for _, p := range got.subsets {
		if p.create != nil || p.change != nil || p.have != nil && p.replicas != 3 {
			t.Errorf("UD-18 %+v", p)
		}
	}
}

// TestPartitions: each subset has its own partition, which is at most the number of the subset's replicas.
func TestPartitions(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions string
		want       [2]int32
	}{
		{"UD-36 a updates 2, b none", "{a: 3, b: 5}", [2]int32{3, 5}},
		{"UD-36 a is done", "{a: 0, b: 5}", [2]int32{0, 5}},
		{"UD-36 all", "{}", [2]int32{0, 0}},
		{"UD-35 above the replicas", "{a: 9, b: -2}", [2]int32{5, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, "replicas: 5", "replicas: 10", "  topology:\n", "  updateStrategy: {manualUpdate: {partitions: "+c.partitions+"}}\n  topology:\n")
			got := passOn(t, ud, nil)
			if kept := [2]int32{got.subsets[0].kept, got.subsets[1].kept}; kept != c.want {
				t.Errorf("%v", kept)
			}
			for i, p := range got.subsets {
				if is := partsOf(p.create); is.kept == nil || *is.kept != c.want[i] || is.replicas != 5 {
					t.Errorf("%s: %+v", p.spec.Name, is.numbers)
				}
			}
		})
	}
}

// podAt returns a Pod of subset a.
func podAt(name, revision string, ready, stuck bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{apps.LabelSubsetName: "a", apps.LabelSubsetRevision: revision}}}
	pod.Status.Phase = corev1.PodRunning
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1_000_000, 0))}}
	}
	if stuck {
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	return pod
}

// TestUnstick: outdated Pods that are not ready block the update of a StatefulSet of Kubernetes, and are deleted.
func TestUnstick(t *testing.T) {
	pods := []*corev1.Pod{
		podAt("db-0", "web-0", false, false), podAt("db-1", "web-0", true, false), podAt("db-2", "web-0", false, false), podAt("db-3", "web-1", false, false),
	}
	for _, c := range []struct {
		name  string
		edits []string
		old   bool
		want  []string
	}{
		{"UD-16 from the partition on", set(), false, []string{"db-2"}},
		{"UD-16 OnDelete", all(set(), []string{podMeta, "        updateStrategy: {type: OnDelete}\n" + podMeta}), false, nil},
		{"UD-16 not before the update", set(), true, nil},
		{"UD-16 from the start on", all(set(), []string{podMeta, "        ordinals: {start: 1}\n" + podMeta}), false, []string{"db-2"}},
		{"UD-16 from a later start on", all(set(), []string{podMeta, "        ordinals: {start: 2}\n" + podMeta}), false, nil},
		{"UD-16 CloneSets do so themselves", nil, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, all(c.edits, []string{"  topology:\n", "  updateStrategy: {manualUpdate: {partitions: {a: 1}}}\n  topology:\n"})...)
			have, _ := mustBuild(t, ud, numbers{replicas: 2, kept: new(int32(1))})
			have = stored(have, "db")
			if c.old {
				have.GetLabels()[apps.LabelSubsetRevision] = "web-0"
			}
			var got []string
			for _, w := range passOn(t, ud, pods, have).changes {
				if w.patch == nil {
					got = append(got, w.GetName())
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatchedRevision: the patch of a subset cannot change the label with the revision of the Pods.
func TestPatchedRevision(t *testing.T) {
	ud := small(t, all(set(), in(subsetA, `patch: {metadata: {labels: {apps.kruise.io/controller-revision-hash: mine, apps.kruise.io/united-deployment-reserved-pod: "true", zone: x}}}`))...)
	have, _ := mustBuild(t, ud, numbers{replicas: 3, kept: new(int32(0))})
	want := map[string]string{"app": "web", "zone": "x", apps.LabelSubsetName: "a", apps.LabelSubsetRevision: "web-1"}
	if diff := cmp.Diff(want, partsOf(have).pod.Labels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnavailable: while Pods are reserved, an update does not wait for these Pods. Afterwards the value in the
// template is used again.
func TestUnavailable(t *testing.T) {
	stuck, ready := podAt("p1", "web-0", false, true), podAt("p2", "web-1", true, false)
	count := func(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }
	for _, c := range []struct {
		name  string
		edits []string
		have  *intstr.IntOrString
		pods  []*corev1.Pod
		want  *intstr.IntOrString
	}{
		{"UD-34 an old Pod is stuck", nil, count("20%"), []*corev1.Pod{stuck, ready}, count("3")},
		{"UD-34 nothing is stuck", nil, count("20%"), []*corev1.Pod{ready}, nil},
		{"UD-34 back to the default of CloneSets", nil, count("3"), []*corev1.Pod{ready}, count("20%")},
		{"UD-34 back to the default of Deployments", deployment(), count("3"), []*corev1.Pod{ready}, count("25%")},
		{"UD-34 back to the template", []string{podMeta, "        updateStrategy: {rollingUpdate: {maxUnavailable: 1}}\n" + podMeta}, count("3"), []*corev1.Pod{ready}, count("1")},
		{"UD-34 the template's number", []string{podMeta, "        updateStrategy: {rollingUpdate: {maxUnavailable: 3}}\n" + podMeta}, count("3"), []*corev1.Pod{ready}, nil},
		{"UD-34 a foreign default", nil, count("30%"), []*corev1.Pod{ready}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, all(adaptive("reserveUnschedulablePods: true"), c.edits)...)
			o := &observation{ud: ud, settings: mustResolve(t, ud), revision: "web-1", now: time.Unix(2_000_000, 0), pods: func(types.UID) []*corev1.Pod { return c.pods }}
			have, _ := mustBuild(t, ud, numbers{replicas: 3, unavailable: c.have})
			p := o.observe(&ud.Spec.Topology.Subsets[0], map[string]workload{"a": have})
			o.judge(&todo{}, p)
			p.replicas = 3
			if diff := cmp.Diff(c.want, o.unavailable(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReservedPods: the Pods of a new subset are labelled as reserved until the Pods run. The label of Pods of an old
// revision is not changed.
func TestReservedPods(t *testing.T) {
	labelled := func(pod *corev1.Pod, value string) *corev1.Pod {
		pod.Labels[apps.LabelReservedPod] = value
		return pod
	}
	for _, c := range []struct {
		name     string
		statuses []string
		pod      *corev1.Pod
		reserved bool
	}{
		{"UD-26 a new UnitedDeployment", nil, podAt("p", "web-1", true, false), false},
		{"UD-30 a new subset", []string{"b"}, podAt("p", "web-1", true, false), true},
		{"UD-28 a known subset", []string{"a", "b"}, podAt("p", "web-1", true, false), false},
		{"UD-28 stuck", []string{"a"}, podAt("p", "web-1", false, true), true},
		{"UD-28 an old Pod is stuck", []string{"a"}, podAt("p", "web-0", false, true), true},
		{"UD-28 a ready old Pod", []string{"a"}, labelled(podAt("p", "web-0", true, false), "false"), false},
		{"UD-29 ready for long", []string{"a"}, labelled(podAt("p", "web-1", true, false), "true"), false},
		{"UD-29 an old Pod proves nothing", []string{"a"}, labelled(podAt("p", "web-0", true, false), "true"), true},
		{"UD-29 an old Pod that the partition keeps", []string{"a"}, labelled(podAt("p", "web-0", true, false), "true"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, adaptive("reserveUnschedulablePods: true")...)
			if c.name == "UD-30 a new subset" {
				c.pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(2_000_000, 0))
			}
			if strings.Contains(c.name, "partition") {
				ud.Spec.UpdateStrategy.ManualUpdate = &v1beta1.ManualUpdate{Partitions: map[string]int32{"a": 1}}
			}
			for _, name := range c.statuses {
				ud.Status.SubsetStatuses = append(ud.Status.SubsetStatuses, v1beta1.UnitedDeploymentSubsetStatus{Name: name})
			}
			have, _ := mustBuild(t, ud, numbers{replicas: 1})
			got := passOn(t, ud, []*corev1.Pod{c.pod}, have)
			relabelled := slices.ContainsFunc(got.changes, func(w *write) bool { return w.GetName() == c.pod.Name })
			if label := strconv.FormatBool(c.reserved); (len(got.subsets[0].reserved) > 0) != c.reserved || relabelled != (label != c.pod.Labels[apps.LabelReservedPod]) {
				t.Errorf("reserved %d, relabelled %t", len(got.subsets[0].reserved), relabelled)
			}
		})
	}
}

// TestSurgeHoldsNoPlace: if a subset has more Pods than replicas, as during a rolling update, the additional Pods do
// not raise the subset's replicas.
func TestSurgeHoldsNoPlace(t *testing.T) {
	ud := small(t, all(adaptive(""), in(subsetA, "maxReplicas: 4"))...)
	have, _ := mustBuild(t, ud, numbers{replicas: 2})
	o := &observation{ud: ud, settings: mustResolve(t, ud), revision: "web-1"}
	p := &part{have: have, mark: subsets.Mark{Standing: subsets.Closed}}
	for range 3 {
		pod := podAt("p", "web-1", true, false)
		pod.Spec.NodeName = "n"
		p.pods = append(p.pods, pod)
	}
	if got := o.state(p); got.Settled != 2 || got.Replicas != 2 {
		t.Errorf("%+v", got)
	}
}

// TestScaleTellsTheTruth: the scale subresource counts the Pods that its selector selects, before and after the Pods
// get the label.
func TestScaleTellsTheTruth(t *testing.T) {
	ud := small(t, adaptive("reserveUnschedulablePods: true")...)
	have := owned("1", "a", 0, 0)
	have.Status.Replicas = 3
	pods := []*corev1.Pod{podAt("p1", "web-1", true, false), podAt("p2", "web-1", true, false), podAt("p3", "web-1", false, true)}
	pods[1].Labels[apps.LabelReservedPod] = "false"
	o := &observation{
		ud: ud, settings: mustResolve(t, ud), revision: "web-1", workloads: []workload{have}, now: time.Unix(2_000_000, 0),
		pods: func(types.UID) []*corev1.Pod { return pods },
	}
	status := nextStatus(o, decide(o), outcome{}, nil)
	if status.Replicas != 1 || status.ReservedPods != 1 || !strings.HasSuffix(status.LabelSelector, ",apps.kruise.io/united-deployment-reserved-pod=false") {
		t.Errorf("UD-61 %+v", status)
	}
}
