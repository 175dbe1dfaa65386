package workloadspread

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func ready(p *corev1.Pod) {
	p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}}
}

func created(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = ago(d) }
}

func hasEnded(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

func costs(cost string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { put(&p.Annotations, apps.AnnotationPodDeletionCost, cost) }
}

// unschedulable makes a Pod unschedulable since the given time ago.
func unschedulable(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.CreationTimestamp, p.Status.Phase = ago(d), corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes", LastTransitionTime: ago(d)}}
	}
}

// ofVersion makes a Pod a Pod of a Deployment's ReplicaSet with the given hash.
func ofVersion(version string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences[0].Kind = "ReplicaSet"
		put(&p.Labels, "pod-template-hash", version)
	}
}

func node(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
}

// scene is an input of a decision, with the Pods as a list.
type scene struct {
	observed

	list []*corev1.Pod
}

// by returns the input of a decision about the WorkloadSpread with the given name.
func (o scene) by(s *settings, spread string) observed {
	o.pods = s.crowdOf(spread, o.list, o.versioned)
	return o.observed
}

func seen(pods []*corev1.Pod, nodes ...*corev1.Node) scene {
	replicas := 5
	return scene{list: pods, observed: observed{
		replicas: &replicas, versioned: replicaSets, now: start,
		node: func(name string) *corev1.Node {
			for _, n := range nodes {
				if n.Name == name {
					return n
				}
			}
			return nil
		},
	}}
}

func planOf(t *testing.T, obj *object, o scene) plan {
	t.Helper()
	s := settled(t, obj)
	p, err := s.count(obj, o.by(s, obj.Name))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ledgerIs(books ledger) func(*object) {
	return func(obj *object) { obj.Status.VersionedSubsetStatuses = books }
}

// list returns the entries of the status for the subsets a and b.
func list(a, missing, b int32) []line {
	return []line{{Name: "a", Replicas: a, MissingReplicas: missing}, {Name: "b", Replicas: b, MissingReplicas: -1}}
}

// beside returns the entries of the status for the subset a and for a subset b without Pods.
func beside(a line) []line { return []line{a, {Name: "b", MissingReplicas: -1}} }

// alike returns a status in which the list for all versions equals the list of the only version, without the names of
// Pods.
func alike(a line) status {
	all := a
	all.CreatingPods, all.DeletingPods = nil, nil
	return status{ObservedGeneration: 4, SubsetStatuses: beside(all), VersionedSubsetStatuses: ledger{ignored: beside(a)}}
}

// namesOf returns the names of Pods.
func namesOf(pods []*corev1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// TestBooksOf: after a user has removed the status, new Pods are created before the controller has counted the Pods
// again.
func TestBooksOf(t *testing.T) {
	obj := spread(ledgerIs(ledger{ignored: {{Name: "a", CreatingPods: times{"s": ago(time.Second)}}}}))
	obj.Status.ObservedGeneration = 0
	there := seen([]*corev1.Pod{pod("p", withMark("a")), pod("q", withMark("gone")), pod("r")})
	there.node = nil
	s := settled(t, obj)
	want := ledger{ignored: {{Name: "a", Replicas: 1, CreatingPods: times{"s": ago(time.Second)}}, {Name: "b", MissingReplicas: -1}}}
	if diff := cmp.Diff(want, s.booksOf(obj, obj.Status, there.by(s, obj.Name))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCountStatus(t *testing.T) {
	now := ago(0)
	creating := func(key string, d time.Duration) ledger {
		return ledger{ignored: {{Name: "a", CreatingPods: times{key: ago(d)}}, {Name: "b"}}}
	}
	for _, c := range []struct {
		name  string
		obj   *object
		pods  []*corev1.Pod
		want  status
		lost  []string
		after time.Duration
	}{
		{"WS-33 nothing there", spread(), nil, status{ObservedGeneration: 4, SubsetStatuses: list(0, 2, 0)}, nil, 0},
		{
			"WS-33 counted", spread(),
			[]*corev1.Pod{pod("p", withMark("a")), pod("q", withMark("b")), pod("r", withMark("b"))},
			status{ObservedGeneration: 4, SubsetStatuses: list(1, 1, 2), VersionedSubsetStatuses: ledger{ignored: list(1, 1, 2)}},
			nil, 0,
		},
		{
			"WS-33 ended Pods, and Pods of other filters, do not count", spread(selecting(map[string]string{"role": "x"})),
			[]*corev1.Pod{pod("p", withMark("a"), hasEnded, label("role", "x")), pod("q", withMark("a")), pod("r", withMark("a"), label("role", "x"))},
			status{ObservedGeneration: 4, SubsetStatuses: list(1, 1, 0), VersionedSubsetStatuses: ledger{ignored: list(1, 1, 0)}},
			nil, 0,
		},
		{
			"WS-33 a Pod has come, by its key", spread(ledgerIs(creating("3f0c", time.Second))),
			[]*corev1.Pod{pod("p", markedWith(mark{"zones", "a", "3f0c"}))},
			status{ObservedGeneration: 4, SubsetStatuses: list(1, 1, 0), VersionedSubsetStatuses: ledger{ignored: list(1, 1, 0)}},
			nil, 0,
		},
		{
			"WS-35 a Pod has come and ended, by its key", spread(ledgerIs(creating("3f0c", 43*time.Second))),
			[]*corev1.Pod{pod("p", markedWith(mark{"zones", "a", "3f0c"}), hasEnded, created(time.Hour))},
			status{ObservedGeneration: 4, SubsetStatuses: list(0, 2, 0)},
			nil, 0,
		},
		{
			"WS-35 a Pod has come and ended, by its name", spread(ledgerIs(creating("p", 10*time.Second))),
			[]*corev1.Pod{pod("p", withMark("a"), hasEnded, created(9*time.Second))},
			status{ObservedGeneration: 4, SubsetStatuses: list(0, 2, 0)},
			nil, 0,
		},
		{
			"WS-35 an earlier Pod of the name has ended", spread(ledgerIs(creating("p", 10*time.Second))),
			[]*corev1.Pod{pod("p", withMark("a"), hasEnded, created(11*time.Second))},
			alike(line{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": ago(10 * time.Second)}}),
			nil, 33 * time.Second,
		},
		{
			"WS-35 a Pod is awaited", spread(ledgerIs(creating("p", 10*time.Second))), nil,
			alike(line{Name: "a", MissingReplicas: 1, CreatingPods: times{"p": ago(10 * time.Second)}}),
			nil, 33 * time.Second,
		},
		{"WS-35 a Pod has not come", spread(ledgerIs(creating("p", 43*time.Second))), nil, status{ObservedGeneration: 4, SubsetStatuses: list(0, 2, 0)}, []string{"NotCreated p"}, 0},
		{
			"WS-34 a Pod has not gone", spread(ledgerIs(ledger{ignored: {{Name: "a", Replicas: 1, DeletingPods: times{"p": ago(15 * time.Second)}}}})),
			[]*corev1.Pod{pod("p", withMark("a"))},
			status{ObservedGeneration: 4, SubsetStatuses: list(1, 1, 0), VersionedSubsetStatuses: ledger{ignored: list(1, 1, 0)}},
			[]string{"NotDeleted p"},
			0,
		},
		{
			"WS-34 a Pod is about to go", spread(ledgerIs(ledger{ignored: {{Name: "a", Replicas: 1, DeletingPods: times{"p": now}}}})),
			[]*corev1.Pod{pod("p", withMark("a"))},
			alike(line{Name: "a", Replicas: 1, MissingReplicas: 2, DeletingPods: times{"p": now}}),
			nil, 15 * time.Second,
		},
		{
			"WS-36 versions without Pods go", spread(ledgerIs(ledger{"v1": list(2, 0, 0), "v2": {{Name: "a", CreatingPods: times{"q": now}}}})),
			[]*corev1.Pod{pod("p", withMark("a"), ofVersion("v3"))},
			status{ObservedGeneration: 4, SubsetStatuses: beside(line{Name: "a", Replicas: 1}), VersionedSubsetStatuses: ledger{
				"v2": {{Name: "a", MissingReplicas: 1, CreatingPods: times{"q": now}}, {Name: "b", MissingReplicas: -1}}, "v3": list(1, 1, 0),
			}},
			nil, 43 * time.Second,
		},
		{
			"Pods of all versions that come and go",
			spread(ledgerIs(ledger{
				"v1": {{Name: "a", Replicas: 1, DeletingPods: times{"p": now}}, {Name: "b"}},
				"v2": {{Name: "a", CreatingPods: times{"q": now}}, {Name: "b"}}, "v3": {{Name: "a", CreatingPods: times{"r": now}}, {Name: "b"}},
			})),
			[]*corev1.Pod{pod("p", withMark("a"), ofVersion("v1"))},
			status{
				ObservedGeneration: 4, SubsetStatuses: beside(line{Name: "a", Replicas: 1}),
				VersionedSubsetStatuses: ledger{
					"v1": beside(line{Name: "a", Replicas: 1, MissingReplicas: 2, DeletingPods: times{"p": now}}),
					"v2": beside(line{Name: "a", MissingReplicas: 1, CreatingPods: times{"q": now}}), "v3": beside(line{Name: "a", MissingReplicas: 1, CreatingPods: times{"r": now}}),
				},
			},
			nil, 15 * time.Second,
		},
		{
			"WS-30 Pods of all versions together", spread(),
			[]*corev1.Pod{pod("p", withMark("a"), ofVersion("v1")), pod("q", withMark("a"), ofVersion("v2")), pod("r", withMark("a"), ofVersion("v2"))},
			status{ObservedGeneration: 4, SubsetStatuses: list(3, 0, 0), VersionedSubsetStatuses: ledger{"v1": list(1, 1, 0), "v2": list(2, 0, 0)}},
			nil, 0,
		},
		{
			"WS-30 a subset that is gone", spread(),
			[]*corev1.Pod{pod("p", withMark("z"))},
			status{ObservedGeneration: 4, SubsetStatuses: list(0, 2, 0), VersionedSubsetStatuses: ledger{ignored: list(0, 2, 0)}},
			nil, 0,
		},
		{
			"WS-43 conditions go with the strategy", spread(func(obj *object) {
				obj.Status.SubsetStatuses = []line{{Name: "a", Conditions: []metav1.Condition{schedulableIs("False", start)}}}
			}), nil, status{ObservedGeneration: 4, SubsetStatuses: list(0, 2, 0)}, nil, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.obj.DeepCopy()
			got := planOf(t, c.obj, seen(c.pods))
			if diff := cmp.Diff(c.want, got.status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			var lost []string
			for _, why := range got.lost {
				lost = append(lost, fmt.Sprint(why.Code, " ", why.Object.Name))
			}
			if diff := cmp.Diff(c.lost, lost); diff != "" || got.requeueAfter != c.after {
				t.Errorf("requeue after %s (-want +got):\n%s", got.requeueAfter, diff)
			}
			if diff := cmp.Diff(before, c.obj); diff != "" {
				t.Errorf("the object has changed:\n%s", diff)
			}
		})
	}
}

// TestExistingPods checks which subset a Pod without a mark (the annotation with the subset) gets.
func TestExistingPods(t *testing.T) {
	zones := func(edits ...func(*object)) *object {
		return spread(append([]func(*object){func(obj *object) {
			obj.Spec.Subsets[0].RequiredNodeSelector, obj.Spec.Subsets[1].RequiredNodeSelector = term("zone", "In", "a", "x"), term("zone", "In", "b", "x")
		}}, edits...)...)
	}
	second := func(edit func(*v1beta1.WorkloadSpreadSubset)) func(*object) {
		return func(obj *object) { edit(&obj.Spec.Subsets[1]) }
	}
	wish := func(s *v1beta1.WorkloadSpreadSubset) {
		s.PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: *term("fast", "Exists")}}
	}
	patch := func(s *v1beta1.WorkloadSpreadSubset) {
		s.Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"sub":"s"}}}`)}
	}
	in := func(zone string, taints ...corev1.Taint) *corev1.Node {
		return node("n1", map[string]string{"zone": zone}, taints...)
	}
	taint := func(effect corev1.TaintEffect) corev1.Taint { return corev1.Taint{Key: "gpu", Effect: effect} }
	for _, c := range []struct {
		name string
		obj  *object
		pod  *corev1.Pod
		node *corev1.Node
		want string
	}{
		{"WS-31 by the Node", zones(), pod("p", on("n1")), in("b"), "b"},
		{"WS-31 the first of two", zones(), pod("p", on("n1")), in("x"), "a"},
		{"WS-31 on no Node", zones(), pod("p"), in("b"), ""},
		{"WS-31 the Node is gone", zones(), pod("p", on("n2")), in("b"), ""},
		{"WS-31 no subset fits", zones(), pod("p", on("n1")), in("c"), ""},
		{"WS-31 the Pod's own requirement counts, too", zones(), pod("p", on("n1"), needing(term("disk", "Exists"))), in("b"), ""},
		{"WS-31 preferred", zones(second(wish)), pod("p", on("n1")), node("n1", map[string]string{"zone": "x", "fast": ""}), "b"},
		{"WS-31 not preferred", zones(second(wish)), pod("p", on("n1")), in("x"), "a"},
		{"WS-31 looks like a Pod of b", zones(subsetA(patch)), pod("p", on("n1")), in("x"), "b"},
		{"WS-31 looks like a Pod of a", zones(subsetA(patch)), pod("p", on("n1"), label("sub", "s")), in("x"), "a"},
		{"WS-31 annotations do not count", zones(subsetA(func(s *v1beta1.WorkloadSpreadSubset) {
			s.Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"sub":"s"}}}`)}
		})), pod("p", on("n1")), in("x"), "a"},
		{"WS-31 room counts last", zones(maxA(0)), pod("p", on("n1")), in("x"), "b"},
		{"WS-31 room kept for a Pod that comes is none", zones(maxA(1), ledgerIs(ledger{ignored: {{Name: "a", CreatingPods: times{"q": ago(time.Second)}}}})), pod("p", on("n1")), in("x"), "b"},
		{"WS-31 a subset without room, if no other fits", zones(maxA(0)), pod("p", on("n1")), in("a"), "a"},
		{"WS-31 a taint", zones(), pod("p", on("n1")), in("a", taint("NoSchedule")), ""},
		{"WS-31 a taint that keeps Pods away if possible", zones(), pod("p", on("n1")), in("a", taint("PreferNoSchedule")), ""},
		{"WS-31 tolerated by the Pod", zones(), pod("p", on("n1"), tolerating("gpu")), in("a", taint("PreferNoSchedule")), "a"},
		{"WS-31 tolerated by the subset", zones(subsetA(func(s *v1beta1.WorkloadSpreadSubset) { s.Tolerations = pod("", tolerating("gpu")).Spec.Tolerations })), pod("p", on("n1")), in("x", taint("NoExecute")), "a"},
		{"the Node has trouble now", zones(), pod("p", on("n1")), in("a", corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: "NoExecute"}, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: "NoSchedule"}), "a"},
		{"WS-30 the mark of another WorkloadSpread is none", zones(), pod("p", on("n1"), markedWith(mark{"other", "a", ""})), in("b"), "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := planOf(t, c.obj, seen([]*corev1.Pod{c.pod}, c.node))
			subset := ""
			if len(got.marks) > 0 {
				m, _ := markOf(pod("", func(p *corev1.Pod) {
					put(&p.Annotations, apps.AnnotationMatchedWorkloadSpread, *got.marks[0].change.Annotations[apps.AnnotationMatchedWorkloadSpread])
				}), "zones")
				subset = m.Subset
			}
			if subset != c.want {
				t.Errorf("subset %q, want %q", subset, c.want)
			}
		})
	}
}

func maxA(n int32) func(*object) {
	return subsetA(func(s *v1beta1.WorkloadSpreadSubset) { s.MaxReplicas = number(n) })
}

// TestExistingPodsFillUp: Pods without a mark (the annotation with the subset) fill up a subset: each Pod that gets
// the subset leaves a place less for all remaining Pods, in any order of the Pods.
func TestExistingPodsFillUp(t *testing.T) {
	pods := []*corev1.Pod{pod("1", on("n1")), pod("2", on("n1")), pod("3", withMark("a"), on("n1"))}
	got := planOf(t, spread(), seen(pods, node("n1", nil)))
	if diff := cmp.Diff(list(2, 0, 1), got.status.SubsetStatuses); diff != "" || len(got.marks) != 2 {
		t.Errorf("%d marks (-want +got):\n%s", len(got.marks), diff)
	}
}

func TestIgnoreExistingMetadata(t *testing.T) {
	for _, c := range []struct {
		name, value string
		labels      int
	}{{"WS-32 with the labels of the patch", "", 1}, {"WS-32 without", "True", 0}, {"WS-32 any other value", "yes", 1}} {
		t.Run(c.name, func(t *testing.T) {
			obj := spread(patching(`{"metadata":{"labels":{"sub":"s"}}}`), func(obj *object) {
				obj.Annotations = map[string]string{apps.AnnotationIgnoreExistingPodsMetadata: c.value}
			}, func(obj *object) { obj.Spec.Subsets = obj.Spec.Subsets[:1] })
			got := planOf(t, obj, seen([]*corev1.Pod{pod("p", on("n1"))}, node("n1", nil)))
			if len(got.marks) != 1 || len(got.marks[0].change.Labels) != c.labels {
				t.Errorf("%+v", got.marks)
			}
		})
	}
}

// costsOf returns the changed deletion costs, with the Pods of each cost.
func costsOf(p plan) map[string]string {
	out := map[string]string{}
	for _, w := range p.costs {
		out[*w.change.Annotations[apps.AnnotationPodDeletionCost]] += w.pod.Name
	}
	return out
}

func TestDeletionCosts(t *testing.T) {
	three := maximums(1, 1, nil)
	many := []*corev1.Pod{
		pod("a", withMark("a"), ready), pod("b", withMark("a"), on("n1")), pod("c", withMark("b"), ready), pod("d", withMark("b")), pod("e", withMark("c")), pod("f", withMark("z")),
	}
	versions := []*corev1.Pod{pod("a", withMark("a"), ofVersion("v1")), pod("b", withMark("b"), ofVersion("v1")), pod("c", withMark("a"), ofVersion("v2")), pod("d", withMark("b"), ofVersion("v2"))}
	for _, c := range []struct {
		name   string
		obj    *object
		pods   []*corev1.Pod
		latest string
		want   map[string]string
	}{
		{"WS-38 within and beyond the maximums, and without a subset", spread(three), many, "", map[string]string{"300": "a", "-100": "b", "200": "c", "-200": "d", "100": "e", "-400": "f"}},
		{"WS-38 a kind that does not heed costs", spread(three, of("batch/v1", "Job", "web")), many, "", map[string]string{}},
		{"WS-39 an older version goes from the first subset on", spread(of("apps/v1", "Deployment", "web")), versions, "v2", map[string]string{"100": "ad", "200": "bc"}},
		{"WS-42 the latest version is not known yet", spread(of("apps/v1", "Deployment", "web")), versions, "", map[string]string{}},
		{"WS-40 the unready Pod is too many", spread(maximums(1, nil)), []*corev1.Pod{pod("a", withMark("a"), on("n1")), pod("b", withMark("a"), ready)}, "", map[string]string{"200": "b", "-100": "a"}},
		{"WS-41 costs that stay, and costs of a user", spread(), []*corev1.Pod{pod("a", withMark("a"), costs("200")), pod("b", withMark("a"), costs("7"))}, "", map[string]string{"200": "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := seen(c.pods, node("n1", nil))
			o.latest = c.latest
			if diff := cmp.Diff(c.want, costsOf(planOf(t, c.obj, o))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdaptive(t *testing.T) {
	was := func(is metav1.ConditionStatus, d time.Duration) func(*object) {
		return func(obj *object) {
			obj.Status.SubsetStatuses = []line{{Name: "a", Conditions: []metav1.Condition{schedulableIs(is, start.Add(-d))}}}
		}
	}
	const open, closed = "True Sufficient ", "False PodUnschedulable "
	for _, c := range []struct {
		name       string
		obj        *object
		pods       []*corev1.Pod
		conditions map[string]string
		stuck      []string
		reopened   []string
		after      time.Duration
	}{
		{"WS-43 no time", spread(strategy("Adaptive")), []*corev1.Pod{pod("p", withMark("a"), unschedulable(time.Hour))}, map[string]string{}, nil, nil, 0},
		{"WS-43 time 0", spread(adaptive(0)), []*corev1.Pod{pod("p", withMark("a"), unschedulable(time.Hour))}, map[string]string{}, nil, nil, 0},
		{"WS-46 nothing is wrong", spread(adaptive(30)), []*corev1.Pod{pod("p", withMark("a"))}, map[string]string{"a": open + "0s", "b": open + "0s"}, nil, nil, 0},
		{"WS-46 nothing has been wrong for long", spread(adaptive(30), was("True", time.Hour)), nil, map[string]string{"a": open + "1h0m0s", "b": open + "0s"}, nil, nil, 0},
		{"WS-45 the last subset waits for nothing", spread(adaptive(30)), []*corev1.Pod{pod("p", withMark("b"), unschedulable(20*time.Second))}, map[string]string{"a": open + "0s", "b": open + "0s"}, nil, nil, 0},
		{"WS-44 not for long", spread(adaptive(30)), []*corev1.Pod{pod("p", withMark("a"), unschedulable(20*time.Second))}, map[string]string{"a": open + "0s", "b": open + "0s"}, nil, nil, 10 * time.Second},
		{
			"WS-45 for too long", spread(adaptive(30)),
			[]*corev1.Pod{pod("p", withMark("a"), unschedulable(31*time.Second)), pod("q", withMark("a"), unschedulable(9*time.Second)), pod("r", withMark("b"), unschedulable(time.Hour))},
			map[string]string{"a": closed + "0s", "b": open + "0s"},
			[]string{"p"},
			nil, 21 * time.Second,
		},
		{"WS-45 still", spread(adaptive(30), was("False", time.Minute)), []*corev1.Pod{pod("p", withMark("a"), unschedulable(time.Hour))}, map[string]string{"a": closed + "1m0s", "b": open + "0s"}, []string{"p"}, nil, 0},
		{"WS-46 closed for a while", spread(adaptive(30), was("False", time.Minute)), nil, map[string]string{"a": closed + "1m0s", "b": open + "0s"}, nil, nil, 4 * time.Minute},
		{"WS-46 open again", spread(adaptive(30), was("False", 5*time.Minute)), nil, map[string]string{"a": open + "0s", "b": open + "0s"}, nil, []string{"a"}, 0},
		{"WS-46 a closed subset has become the last", spread(maximums(nil), adaptive(30), was("False", time.Minute)), nil, map[string]string{"a": open + "0s"}, nil, []string{"a"}, 0},
		{"WS-46 a single subset stays open", spread(maximums(nil), adaptive(30)), []*corev1.Pod{pod("p", withMark("a"), unschedulable(time.Hour))}, map[string]string{"a": open + "0s"}, nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := planOf(t, c.obj, seen(c.pods))
			conditions := map[string]string{}
			for _, of := range got.status.SubsetStatuses {
				for _, is := range of.Conditions {
					conditions[of.Name] = fmt.Sprint(is.Status, " ", is.Reason, " ", start.Sub(is.LastTransitionTime.Time))
				}
			}
			if diff := cmp.Diff(c.conditions, conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			for version, of := range got.status.VersionedSubsetStatuses {
				if diff := cmp.Diff(got.status.SubsetStatuses[0].Conditions, of[0].Conditions); diff != "" {
					t.Errorf("conditions of %s (-want +got):\n%s", version, diff)
				}
			}
			if diff := cmp.Diff([][]string{c.stuck, c.reopened}, [][]string{namesOf(got.stuck), got.reopened}); diff != "" || got.requeueAfter != c.after {
				t.Errorf("requeue after %s; stuck, reopened (-want +got):\n%s", got.requeueAfter, diff)
			}
		})
	}
}

// TestAdaptiveMessage: the condition says which Pod could not be scheduled, and why. The message does not change
// while the subset stays closed.
func TestAdaptiveMessage(t *testing.T) {
	t.Run("WS-45", func(t *testing.T) {
		obj := spread(adaptive(30))
		got := planOf(t, obj, seen([]*corev1.Pod{pod("p", withMark("a"), unschedulable(time.Minute))}))
		message := schedulable(got.status.SubsetStatuses, "a").Message
		if !strings.Contains(message, "p: 0/3 nodes") {
			t.Error(message)
		}
		obj.Status = got.status
		o := seen([]*corev1.Pod{pod("q", withMark("a"), unschedulable(time.Minute))})
		if o.now = start.Add(time.Second); schedulable(planOf(t, obj, o).status.SubsetStatuses, "a").Message != message {
			t.Error("another message")
		}
	})
}

// TestMovesAndStays: three Pods cannot be scheduled in subset a, and are recreated in subset b. The new Pods stay in
// b when a is open again.
func TestMovesAndStays(t *testing.T) {
	obj := spread(maximums(3, nil), adaptive(30))
	s, now := settled(t, obj), start
	pods := []*corev1.Pod{pod("1", withMark("b"), ready), pod("2", withMark("b"), ready)}
	for i := range 3 {
		pods = append(pods, pod(fmt.Sprint("w", i), withMark("a"), unschedulable(0)))
	}
	pass := func(after time.Duration) plan {
		now = now.Add(after)
		o := seen(pods)
		o.now = now
		p, err := s.count(obj, o.by(s, obj.Name))
		if err != nil {
			t.Fatal(err)
		}
		obj.Status = p.status
		return p
	}
	next := func(name string) string {
		_, answer := s.choose("zones", obj.Status.VersionedSubsetStatuses, placesOf(t, s, &obj.Status, 5), newcomer{pod: pod(name), version: ignored, now: now})
		return answer.Subset
	}
	if p := pass(30 * time.Second); len(p.stuck) > 0 || p.requeueAfter <= 0 {
		t.Errorf("after 30 s %v are stuck, again after %s", namesOf(p.stuck), p.requeueAfter)
	}
	if p := pass(time.Second); len(p.stuck) != 3 || next("x0") != "b" {
		t.Errorf("stuck are %v, and the next goes to %q", namesOf(p.stuck), next("x0"))
	}
	pods = pods[:2]
	for i := range 3 {
		pods = append(pods, pod(fmt.Sprint("x", i), withMark("b"), ready, created(time.Hour)))
	}
	if pass(time.Minute); next("x3") != "b" {
		t.Errorf("the next goes to %q", next("x3"))
	}
	p := pass(4 * time.Minute)
	if diff := cmp.Diff([]string{"a"}, p.reopened); diff != "" || len(p.stuck) > 0 || next("x3") != "a" || p.status.SubsetStatuses[1].Replicas != 5 {
		t.Errorf("the next goes to %q, %v", next("x3"), p.status.SubsetStatuses)
	}
}

// TestCountAgain: a second count changes neither the status, nor marks, nor deletion costs.
func TestCountAgain(t *testing.T) {
	obj := spread(adaptive(30))
	pods := []*corev1.Pod{pod("p", withMark("a"), ready), pod("q", on("n1")), pod("r", on("n1")), pod("s", on("n1"))}
	first := planOf(t, obj, seen(pods, node("n1", nil)))
	obj.Status = first.status
	for _, w := range append(first.marks, first.costs...) {
		for key, value := range w.change.Annotations {
			put(&w.pod.Annotations, key, *value)
		}
	}
	o := seen(pods, node("n1", nil))
	o.now = start.Add(time.Minute)
	second := planOf(t, obj, o)
	if diff := cmp.Diff(first.status, second.status); diff != "" || len(second.marks)+len(second.costs) > 0 {
		t.Errorf("%d marks, %d costs (-first +second):\n%s", len(second.marks), len(second.costs), diff)
	}
}

// BenchmarkCount counts 10,000 Pods of five subsets.
func BenchmarkCount(b *testing.B) {
	obj := &object{}
	obj.Name = "web"
	obj.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"}
	for i := range 5 {
		obj.Spec.Subsets = append(obj.Spec.Subsets, v1beta1.WorkloadSpreadSubset{Name: fmt.Sprint("subset-", i), MaxReplicas: ptr.To(intstr.FromInt32(2000))})
	}
	var pods []*corev1.Pod
	for i := range 10_000 {
		p := pod(fmt.Sprint("web-", i*7919%10_000), withMark(fmt.Sprint("subset-", i/2000)))
		p.Annotations[apps.AnnotationMatchedWorkloadSpread] = mark{"web", fmt.Sprint("subset-", i/2000), fmt.Sprint("0b63e5a1-6d1a-4a1a-8a58-", i)}.text()
		pods = append(pods, p)
	}
	s, problems, _ := resolve(&obj.Spec)
	if problems != nil {
		b.Fatal(problems)
	}
	o := seen(pods).by(s, obj.Name)
	p, err := s.count(obj, o)
	if err != nil {
		b.Fatal(err)
	}
	obj.Status = p.status
	b.Run("pass", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.count(obj, seen(pods).by(s, obj.Name)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("webhooks wait", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.tally(obj, o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestNextSubset: the event about a full subset distinguishes existing Pods from Pods that are still being created,
// because a higher maximum is no remedy if requests to create Pods fail.
func TestNextSubset(t *testing.T) {
	for _, tc := range []struct {
		name string
		a    line
		want string
	}{
		{"room", line{Name: "a", Replicas: 1}, ""},
		{"full", line{Name: "a", Replicas: 2, CreatingPods: times{"p": ago(0)}}, "further Pods go to subset b: MaxReached: spec.subsets[a]: 2: the subset has as many Pods as allowed; raise the maximum"},
		{
			"full of requests",
			line{Name: "a", Replicas: 1, CreatingPods: times{"p": ago(0)}},
			"further Pods go to subset b: PlacesKept: spec.subsets[a]: 2: Pods: 1, places kept for requests of the last 43s: 1; see the events of the Pods' owner: the place of a failed request becomes free again",
		},
		{"a Pod that goes", line{Name: "a", Replicas: 2, DeletingPods: times{"p": ago(0)}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := settled(t, spread())
			if diff := cmp.Diff(tc.want, s.next(beside(tc.a), placesOf(t, s, &status{}, 5))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
