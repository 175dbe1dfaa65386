package daemonset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

var decidedAt = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func number(n int32) *intstr.IntOrString      { return new(intstr.FromInt32(n)) }
func percentage(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }
func rollingUpdateOf(set *v1beta1.DaemonSet) *v1beta1.RollingUpdateDaemonSet {
	return set.Spec.UpdateStrategy.RollingUpdate
}

// agents returns a stored DaemonSet with in-place updates.
func agents(change ...func(*v1beta1.DaemonSet)) *v1beta1.DaemonSet {
	labels := map[string]string{"app": "agent"}
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "uid-agent", Generation: 3},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v2"}}},
			},
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{
				Type:          v1beta1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &v1beta1.RollingUpdateDaemonSet{RollingUpdateType: v1beta1.InPlaceIfPossibleRollingUpdateType, MaxUnavailable: number(1)},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func ownedByAgents(set *v1beta1.DaemonSet) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(set, v1beta1.GroupVersion.WithKind("DaemonSet"))}
}

// machine returns a Node.
func machine(name string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	for _, f := range change {
		f(node)
	}
	return node
}

func machines(n int) (nodes []*corev1.Node) {
	for i := range n {
		nodes = append(nodes, machine(fmt.Sprintf("n%d", i+1)))
	}
	return nodes
}

func nodeTainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "example.test/gpu", Value: "a", Effect: effect})
	}
}

func nodeLabelled(key, value string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels[key] = value }
}

// newestHash is the label value of Pods at the newest revision.
const newestHash = "new"

// agentOn returns an available Pod of the newest revision on a Node.
func agentOn(set *v1beta1.DaemonSet, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	since := metav1.NewTime(decidedAt.Add(-time.Hour))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "agent-" + node, UID: types.UID("uid-" + node), CreationTimestamp: since, OwnerReferences: ownedByAgents(set),
			Labels: map[string]string{"app": "agent", apps.LabelRevision: newestHash},
		},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v2"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: apps.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since},
		}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// closedGate changes a Pod to a Pod whose update in place is in progress.
func closedGate(pod *corev1.Pod) {
	pod.Status.Conditions[0].Status, pod.Status.Conditions[0].Reason = corev1.ConditionFalse, apps.ReasonStartInPlaceUpdate
}

func podLabelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func isOld(pod *corev1.Pod)         { pod.Labels[apps.LabelRevision] = "old" }
func isTerminating(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(decidedAt)) }
func isUnready(pod *corev1.Pod)     { pod.Status.Conditions[1].Status = corev1.ConditionFalse }
func isClosed(pod *corev1.Pod)      { pod.Status.Conditions[0].Status = corev1.ConditionFalse }
func isReadySince(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions[1].LastTransitionTime = metav1.NewTime(decidedAt.Add(-ago))
	}
}

func agentsOn(set *v1beta1.DaemonSet, nodes []*corev1.Node, change ...func(*corev1.Pod)) (pods []*corev1.Pod) {
	for _, node := range nodes {
		pods = append(pods, agentOn(set, node.Name, change...))
	}
	return pods
}

// observer builds the input of a decision from objects, without a cache.
type observer struct {
	t         testing.TB
	control   *podcontrol.Control
	reader    *podcontrol.Reader
	histories *revision.Histories
	revisions []*appsv1.ControllerRevision
}

func newObserver(t testing.TB) *observer {
	t.Helper()
	o := &observer{t: t}
	updater, err := kruise.InPlace(apps.DefaultGates(), apps.ReservedDaemonSetLabels())
	o.must(err)
	config, err := kruise.PodControl(updater, podcontrol.Config{OnlyPreDelete: true, NeedsGate: true, GateWhereUpdated: true})
	o.must(err)
	o.control, err = podcontrol.New(config)
	o.must(err)
	o.histories, err = revision.NewHistories(kruise.RevisionKeys(apps.LabelRevision), revision.NewDecoder(10, nil))
	o.must(err)
	o.reader = podcontrol.NewReader(o.control)
	return o
}

func (o *observer) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// written returns a ControllerRevision of a template with the given name, as another controller would store the
// revision.
func (o *observer) written(set *v1beta1.DaemonSet, name string, template *corev1.PodTemplateSpec) *appsv1.ControllerRevision {
	o.t.Helper()
	decision, err := o.histories.Of(revision.OwnerOf(set, v1beta1.GroupVersion.WithKind("DaemonSet")), nil, nil).Decide(template)
	o.must(err)
	decision.Revision.Name, decision.Revision.UID = name, types.UID("uid-"+name)
	return decision.Revision
}

func (o *observer) observe(set *v1beta1.DaemonSet, f *fit, nodes []*corev1.Node, pods []*corev1.Pod) *observation {
	o.t.Helper()
	s, problems, _ := resolve(set, apps.DefaultGates())
	if problems != nil {
		o.t.Fatal(problems.Reasons())
	}
	if o.revisions == nil {
		o.revisions = []*appsv1.ControllerRevision{o.written(set, "agent-"+newestHash, &set.Spec.Template)}
	}
	h := o.histories.Of(revision.OwnerOf(set, v1beta1.GroupVersion.WithKind("DaemonSet")), nil, o.revisions)
	h.Update = o.revisions[0]
	out := &observation{
		set: set, settings: s, history: h, fit: f, nodes: nodes,
		pods: o.reader.Read(set.UID, pods, podcontrol.Want{Update: h.Update.Name, MinReady: s.minReady, Selector: s.selector}, decidedAt),
	}
	out.twins = h.Twins()
	out.perNode = out.describe(podcontrol.PerNodeOptions{})
	return out
}

// fitted returns the fit of a DaemonSet.
func fitted(set *v1beta1.DaemonSet) *fit {
	return newFit(set, labels.SelectorFromSet(set.Spec.Selector.MatchLabels))
}

func named(pods []*corev1.Pod) (out []string) {
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	slices.Sort(out)
	return out
}

func TestResolve(t *testing.T) {
	type read struct {
		Selector          string
		MinReady          time.Duration
		History           int
		Progressive       bool
		Paused, OnDelete  bool
		LeaveUnfit        bool
		Policy            podcontrol.Policy
		Hooked            bool
		Warnings, Refused []string // paths
	}
	usual := read{Selector: "app=agent", History: 10, Policy: podcontrol.InPlaceIfPossible}
	but := func(change func(*read)) read { r := usual; change(&r); return r }
	refused := func(paths ...string) read { return read{Refused: paths} }
	for _, tc := range []struct {
		name  string
		set   *v1beta1.DaemonSet
		gates map[apps.Gate]bool
		want  read
	}{
		{name: "as it is stored", set: agents(), want: usual},
		{name: "D-22 standard: recreated", set: agents(func(set *v1beta1.DaemonSet) {
			rollingUpdateOf(set).RollingUpdateType = v1beta1.StandardRollingUpdateType
		}), want: but(func(r *read) { r.Policy = podcontrol.Recreate })},
		{name: "no strategy at all", set: agents(func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy = v1beta1.DaemonSetUpdateStrategy{}
		}), want: but(func(r *read) { r.Policy = podcontrol.Recreate })},
		{name: "D-22 OnDelete: rollingUpdate is not read", set: agents(func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.Type = v1beta1.OnDeleteDaemonSetStrategyType
			rollingUpdateOf(set).Paused, rollingUpdateOf(set).Partition = new(true), percentage("what")
		}), want: but(func(r *read) { r.OnDelete, r.Policy = true, podcontrol.Recreate })},
		{name: "paused", set: agents(func(set *v1beta1.DaemonSet) { rollingUpdateOf(set).Paused = new(true) }), want: but(func(r *read) { r.Paused = true })},
		{name: "D-9 progressive", set: agents(func(set *v1beta1.DaemonSet) {
			set.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
		}), want: but(func(r *read) { r.Progressive = true })},
		{name: "D-23 by its gate", set: agents(), gates: map[apps.Gate]bool{apps.GateDaemonSetPruneIneligibleNodes: true}, want: but(func(r *read) { r.LeaveUnfit = true })},
		{name: "times and limits", set: agents(func(set *v1beta1.DaemonSet) {
			set.Spec.MinReadySeconds, set.Spec.RevisionHistoryLimit = 7, new(int32(2))
		}), want: but(func(r *read) { r.MinReady, r.History = 7*time.Second, 2 })},
		{name: "negative ones are odd", set: agents(func(set *v1beta1.DaemonSet) {
			set.Spec.MinReadySeconds, set.Spec.RevisionHistoryLimit = -7, new(int32(-2))
		}), want: but(func(r *read) {
			r.History, r.Warnings = 0, []string{"spec.revisionHistoryLimit", "spec.minReadySeconds"}
		})},
		{name: "L-13 a hook before deletions, and no other", set: agents(func(set *v1beta1.DaemonSet) {
			hook := &pub.LifecycleHook{LabelsHandler: map[string]string{"hook": "on"}}
			set.Spec.Lifecycle = &pub.Lifecycle{PreDelete: hook, PreNormal: hook, InPlaceUpdate: hook}
		}), want: but(func(r *read) {
			r.Hooked, r.Warnings = true, []string{"spec.lifecycle.inPlaceUpdate", "spec.lifecycle.preNormal"}
		})},
		{name: "D-11 it selects everything", set: agents(func(set *v1beta1.DaemonSet) { set.Spec.Selector = &metav1.LabelSelector{} }), want: refused("spec.selector")},
		{name: "what cannot be decoded is told of alone", set: agents(func(set *v1beta1.DaemonSet) {
			set.Spec.Selector, set.Spec.Undecodable = nil, []decode.Problem{{Path: "spec.selector"}}
		}), want: refused("spec.selector")},
		{name: "an unknown type", set: agents(func(set *v1beta1.DaemonSet) { set.Spec.UpdateStrategy.Type = "Later" }), want: refused("spec.updateStrategy.type")},
		{name: "D-30 in place beside another", set: agents(func(set *v1beta1.DaemonSet) { rollingUpdateOf(set).MaxSurge = number(1) }), want: refused(rollingUpdate + ".maxSurge")},
		{name: "P-1 a partition without %", set: agents(func(set *v1beta1.DaemonSet) { rollingUpdateOf(set).Partition = percentage("5") }), want: refused(rollingUpdate + ".partition")},
		{name: "P-1 a burst below zero", set: agents(func(set *v1beta1.DaemonSet) { set.Spec.BurstReplicas = number(-1) }), want: refused("spec.burstReplicas")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got read
			s, problems, _ := resolve(tc.set, tc.gates)
			for _, problem := range problems.Reasons() {
				got.Refused = append(got.Refused, problem.Path)
			}
			if s != nil && problems == nil {
				wants := rules(tc.set)
				got = read{
					Selector: s.selector.String(), MinReady: s.minReady, History: s.historyLimit, Progressive: s.rollout.Progressive, Paused: s.rollout.Paused,
					OnDelete: s.rollout.OnDelete, LeaveUnfit: s.rollout.LeaveUnfit, Policy: wants.Policy, Hooked: wants.Hooks.PreDelete != nil,
				}
				if wants.Hooks.InPlaceUpdate != nil || wants.Hooks.PreNormal != nil || wants.GracePeriod != 0 {
					t.Errorf("rules %+v have more than a hook before deletions", wants)
				}
				for _, warning := range s.warnings {
					got.Warnings = append(got.Warnings, warning.Path)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("resolve (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCount(t *testing.T) {
	type numbers struct{ Partition, MaxUnavailable, MaxSurge, Burst int }
	type budget struct{ partition, unavailable, surge, burst *intstr.IntOrString }
	for _, tc := range []struct {
		name    string
		fitting int
		set     budget
		want    numbers
	}{
		{"nothing is set", 5, budget{}, numbers{0, 1, 0, 250}},
		{"integers", 5, budget{number(2), number(3), number(0), number(4)}, numbers{2, 3, 0, 4}},
		{"P-7 5 Nodes: 50% kept, 30% unavailable", 5, budget{partition: percentage("50%"), unavailable: percentage("30%")}, numbers{2, 2, 0, 250}},
		{"P-7 5 Nodes: 30% surge", 5, budget{surge: percentage("30%")}, numbers{0, 0, 2, 250}},
		{"P-1 all kept", 5, budget{partition: percentage("100%")}, numbers{5, 1, 0, 250}},
		{"P-1 nearly all kept", 5, budget{partition: percentage("99%")}, numbers{4, 1, 0, 250}},
		{"P-1 more kept than there are", 5, budget{partition: number(9)}, numbers{9, 1, 0, 250}},
		{"D-15 both budgets are 0: one at a time", 5, budget{unavailable: number(0), surge: number(0)}, numbers{0, 1, 0, 250}},
		{"D-15 both are 0%", 5, budget{unavailable: percentage("0%"), surge: percentage("0%")}, numbers{0, 1, 0, 250}},
		{"D-15 a percentage of no Node", 0, budget{unavailable: percentage("30%")}, numbers{0, 1, 0, 250}},
		{"surge alone", 5, budget{surge: number(1)}, numbers{0, 0, 1, 250}},
		{"two budgets, as OpenKruise stores them", 5, budget{unavailable: number(2), surge: number(1)}, numbers{0, 2, 1, 250}},
		{"P-1 a burst of a percentage", 300, budget{burst: percentage("10%")}, numbers{0, 1, 0, 30}},
		{"P-1 rounded down", 25, budget{burst: percentage("10%")}, numbers{0, 1, 0, 2}},
		{"P-1 of few Nodes it is one Pod at least", 5, budget{burst: percentage("10%")}, numbers{0, 1, 0, 1}},
		{"P-1 of none as well", 0, budget{burst: percentage("10%")}, numbers{0, 1, 0, 1}},
		{"P-1 all", 5, budget{burst: percentage("100%")}, numbers{0, 1, 0, 5}},
		{"a burst of 0% is none", 5, budget{burst: percentage("0%")}, numbers{0, 1, 0, 0}},
		{"however it is written", 5, budget{burst: percentage("00.0%")}, numbers{0, 1, 0, 0}},
		{"a burst of 0 is none", 5, budget{burst: number(0)}, numbers{0, 1, 0, 0}},
		{"a small one is not", 5, budget{burst: percentage("0.5%")}, numbers{0, 1, 0, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := agents(func(set *v1beta1.DaemonSet) {
				set.Spec.BurstReplicas = tc.set.burst
				set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{Partition: tc.set.partition, MaxUnavailable: tc.set.unavailable, MaxSurge: tc.set.surge}
			})
			s, faults, _ := resolve(set, nil)
			if faults != nil {
				t.Fatal(faults.Reasons())
			}
			spec, burst, problems := s.count(set, tc.fitting)
			if problems != nil {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(tc.want, numbers{spec.Partition, spec.MaxUnavailable, spec.MaxSurge, burst}); diff != "" {
				t.Errorf("count (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBurstOfNone: a burstReplicas of 0 prevents all work, so a condition reports the value.
func TestBurstOfNone(t *testing.T) {
	for burst, odd := range map[string]int{"0": 1, "0%": 1, "1%": 0, "1": 0} {
		t.Run(burst, func(t *testing.T) {
			set := agents(func(set *v1beta1.DaemonSet) { set.Spec.BurstReplicas = new(intstr.Parse(burst)) })
			todo, err := decide(newObserver(t).observe(set, fitted(set), machines(1), nil))
			if err != nil || len(todo.odd) != odd || odd > 0 && todo.odd[0].Path != "spec.burstReplicas" {
				t.Errorf("odd: %s, %v, want %d", todo.odd, err, odd)
			}
		})
	}
}

func TestClaim(t *testing.T) {
	ssd := func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
	canary := func(set *v1beta1.DaemonSet) {
		rollingUpdateOf(set).Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
	}
	hostNetwork := func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.HostNetwork = true }
	standardTaint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/" + key, Effect: effect})
		}
	}
	for _, tc := range []struct {
		name string
		set  *v1beta1.DaemonSet
		node *corev1.Node
		want claim
	}{
		{"it fits", agents(), machine("n1"), claim{Run: true, Continue: true}},
		{"D-1 a taint of effect NoSchedule", agents(), machine("n1", nodeTainted(corev1.TaintEffectNoSchedule)), claim{Continue: true}},
		{"D-1 a taint of effect NoExecute", agents(), machine("n1", nodeTainted(corev1.TaintEffectNoExecute)), claim{}},
		{"D-1 a label is lacking", agents(ssd), machine("n1"), claim{}},
		{"D-1 and is there", agents(ssd), machine("n1", nodeLabelled("disk", "ssd")), claim{Run: true, Continue: true}},
		{"D-1 cordoned", agents(), machine("n1", func(node *corev1.Node) { node.Spec.Unschedulable = true }), claim{Run: true, Continue: true}},
		{"D-1 not reachable", agents(), machine("n1", standardTaint("unreachable", corev1.TaintEffectNoExecute)), claim{Run: true, Continue: true}},
		{"D-1 without a network", agents(), machine("n1", standardTaint("network-unavailable", corev1.TaintEffectNoSchedule)), claim{Continue: true}},
		{"D-1 without a network, and using the host's", agents(hostNetwork), machine("n1", standardTaint("network-unavailable", corev1.TaintEffectNoSchedule)), claim{Run: true, Continue: true}},
		{"D-13 the selector of updates matches", agents(canary), machine("n1", nodeLabelled("canary", "yes")), claim{Run: true, Continue: true}},
		{"D-13 it does not", agents(canary), machine("n1"), claim{Run: true, Continue: true, Excluded: true}},
		{"D-13 nor where Pods may only stay", agents(canary), machine("n1", nodeTainted(corev1.TaintEffectNoSchedule)), claim{Continue: true, Excluded: true}},
		{"D-26 a Node that does not fit is not looked at for it", agents(canary, ssd), machine("n1"), claim{}},
		{"an empty selector matches all", agents(func(set *v1beta1.DaemonSet) { rollingUpdateOf(set).Selector = &metav1.LabelSelector{} }), machine("n1"), claim{Run: true, Continue: true}},
		{"D-22 OnDelete knows no selector", agents(canary, func(set *v1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.Type = v1beta1.OnDeleteDaemonSetStrategyType
		}), machine("n1"), claim{Run: true, Continue: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := fitted(tc.set)
			if diff := cmp.Diff(tc.want, f.claim(tc.node)); diff != "" || len(f.oddities) > 0 {
				t.Errorf("claim (-want +got), oddities %s:\n%s", f.oddities, diff)
			}
		})
	}
	if got := (&fit{}).claim(machine("n1")); got != (claim{}) {
		t.Errorf("a DaemonSet that cannot be read claims %+v", got)
	}
	odd := fitted(agents(func(set *v1beta1.DaemonSet) {
		set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "bad value"}
	}))
	if got := odd.claim(machine("n1")); got != (claim{}) || len(odd.oddities) != 1 || odd.oddities[0].Code != nodefit.InvalidNodeTerm {
		t.Errorf("what no Node can fulfil claims %+v, oddities %s", got, odd.oddities)
	}
}

// TestDescribe: a Pod counts as updated by its hash, or by its template generation if the DaemonSet has one.
func TestDescribe(t *testing.T) {
	generation := func(n string) func(*v1beta1.DaemonSet) {
		return func(set *v1beta1.DaemonSet) {
			set.Annotations = map[string]string{apps.AnnotationTemplateGeneration: n}
		}
	}
	for _, tc := range []struct {
		name   string
		set    *v1beta1.DaemonSet
		change []func(*corev1.Pod)
		want   bool
	}{
		{"D-24 by its hash", agents(), nil, true},
		{"D-24 another hash", agents(), []func(*corev1.Pod){isOld}, false},
		{"D-24 another hash, of the same generation", agents(generation("4")), []func(*corev1.Pod){isOld, podLabelled(apps.LabelTemplateGeneration, "4")}, true},
		{"D-24 of another generation", agents(generation("4")), []func(*corev1.Pod){isOld, podLabelled(apps.LabelTemplateGeneration, "3")}, false},
		{"D-24 of none", agents(generation("4")), []func(*corev1.Pod){isOld}, false},
		{"D-24 its hash is enough", agents(generation("4")), []func(*corev1.Pod){podLabelled(apps.LabelTemplateGeneration, "3")}, true},
		{"D-24 the DaemonSet has no generation", agents(), []func(*corev1.Pod){isOld, podLabelled(apps.LabelTemplateGeneration, "4")}, false},
		{"D-24 nor is an empty one any", agents(generation("")), []func(*corev1.Pod){isOld, podLabelled(apps.LabelTemplateGeneration, "")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newObserver(t).observe(tc.set, fitted(tc.set), machines(1), []*corev1.Pod{agentOn(tc.set, "n1", tc.change...)})
			if len(o.perNode.Pods) != 1 || o.perNode.Pods[0].Updated != tc.want {
				t.Errorf("%+v, want updated %t", o.perNode.Pods, tc.want)
			}
			todo, err := decide(o)
			if err != nil {
				t.Fatal(err)
			}
			if updates := len(todo.update) == 1; updates == tc.want {
				t.Errorf("is updated: %t", updates)
			}
			// The status reports Pods that count as updated only by their template generation.
			frozen := tc.want && o.pods.Select(func(p *podcontrol.Pod) bool { return !p.Updated }) != nil
			if got := len(todo.odd) == 1 && todo.odd[0].Code == judge.OddValue; got != frozen {
				t.Errorf("odd: %s, want one: %t", todo.odd, frozen)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	type decision struct {
		Create, Remove, Update, Adopt, Release, Relabel, Twins []string
		Burst                                                  int // if it differs from the usual burst
		KeepTwins                                              bool
	}
	set := agents()
	kept := func(value *intstr.IntOrString) func(*v1beta1.DaemonSet) {
		return func(set *v1beta1.DaemonSet) { rollingUpdateOf(set).Partition = value }
	}
	progressive := func(set *v1beta1.DaemonSet) {
		set.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
	}
	all := func(set *v1beta1.DaemonSet) { rollingUpdateOf(set).MaxUnavailable = percentage("100%") }
	gone := func(set *v1beta1.DaemonSet) { set.DeletionTimestamp = new(metav1.NewTime(decidedAt)) }
	orphan := func(pod *corev1.Pod) { pod.OwnerReferences = nil }
	for _, tc := range []struct {
		name    string
		set     *v1beta1.DaemonSet
		nodes   []*corev1.Node
		pods    []*corev1.Pod
		orphans []*corev1.Pod
		twin    bool
		want    decision
	}{
		{name: "nothing to do", set: set, nodes: machines(3), pods: agentsOn(set, machines(3))},
		{name: "D-3 a Pod for each Node that fits", set: set, nodes: []*corev1.Node{machine("n2"), machine("n1"), machine("n3", nodeTainted(corev1.TaintEffectNoSchedule))}, want: decision{Create: []string{"n1", "n2"}}},
		{
			name: "D-1 from one that it has to leave it is deleted", set: set, nodes: []*corev1.Node{machine("n1"), machine("n2", nodeTainted(corev1.TaintEffectNoExecute))},
			pods: agentsOn(set, machines(2)), want: decision{Remove: []string{"agent-n2"}},
		},
		{
			name: "D-10 a percentage is one of the Nodes that fit now, on the first pass too", set: agents(kept(percentage("70%")), progressive), nodes: machines(9),
			want: decision{Create: []string{"n1", "n2", "n3"}}, // 70 % of 9 are 6
		},
		{
			name: "D-10 whatever the status says", set: agents(kept(percentage("50%")), all, func(set *v1beta1.DaemonSet) { set.Status.DesiredNumberScheduled = 100 }),
			nodes: machines(5), pods: agentsOn(set, machines(5), isOld), want: decision{Update: []string{"agent-n3", "agent-n4", "agent-n5"}},
		},
		{
			name: "D-10 Nodes that do not fit are not among them", set: agents(kept(percentage("50%")), all),
			nodes: append(machines(4), machine("n5", nodeTainted(corev1.TaintEffectNoExecute)), machine("n6", nodeTainted(corev1.TaintEffectNoExecute))),
			pods:  agentsOn(set, machines(4), isOld), want: decision{Update: []string{"agent-n3", "agent-n4"}},
		},
		{
			name: "D-13 only where the selector of updates matches", set: agents(all, func(set *v1beta1.DaemonSet) {
				rollingUpdateOf(set).Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
			}),
			nodes: []*corev1.Node{machine("n1"), machine("n2", nodeLabelled("canary", "yes"))}, pods: agentsOn(set, machines(2), isOld),
			want: decision{Update: []string{"agent-n2"}},
		},
		{
			name: "D-7, P-1 a burst of a percentage, on the first pass", set: agents(func(set *v1beta1.DaemonSet) { set.Spec.BurstReplicas = percentage("50%") }), nodes: machines(4),
			want: decision{Create: []string{"n1", "n2", "n3", "n4"}, Burst: 2},
		},
		{
			name: "an orphan is adopted", set: set, nodes: machines(1), orphans: []*corev1.Pod{agentOn(set, "n1", orphan), agentOn(set, "n2", orphan, podLabelled("app", "other"))},
			want: decision{Adopt: []string{"agent-n1"}, Create: []string{"n1"}}, // the adoption comes first, and ends the reconciliation
		},
		{name: "not by one that is being deleted", set: agents(gone), nodes: nil, orphans: []*corev1.Pod{agentOn(set, "n1", orphan)}},
		{
			name: "a Pod that is not selected is released, and holds its Node until then", set: set, nodes: machines(1), pods: []*corev1.Pod{agentOn(set, "n1", podLabelled("app", "other"))},
			want: decision{Release: []string{"agent-n1"}},
		},
		{
			name: "D-29 Pods at a twin of the newest revision are relabelled", set: set, nodes: machines(3), twin: true,
			pods: []*corev1.Pod{agentOn(set, "n1", podLabelled(apps.LabelRevision, "twin")), agentOn(set, "n2", isOld), agentOn(set, "n3")},
			want: decision{Relabel: []string{"agent-n1"}, Twins: []string{"agent-twin"}, Update: []string{"agent-n2"}},
		},
		{
			name: "but for one that is updated at the moment, or its state would name another revision", set: set, nodes: machines(1), twin: true,
			pods: []*corev1.Pod{agentOn(set, "n1", podLabelled(apps.LabelRevision, "twin"), closedGate)},
			want: decision{Twins: []string{"agent-twin"}, KeepTwins: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			watcher := newObserver(t)
			if tc.twin {
				watcher.revisions = []*appsv1.ControllerRevision{
					watcher.written(tc.set, "agent-"+newestHash, &tc.set.Spec.Template), watcher.written(tc.set, "agent-twin", &tc.set.Spec.Template),
				}
			}
			o := watcher.observe(tc.set, fitted(tc.set), tc.nodes, tc.pods)
			o.orphans = tc.orphans
			todo, err := decide(o)
			if err != nil {
				t.Fatal(err)
			}
			got := decision{
				Create: todo.step.Create, Remove: named(todo.remove), Update: named(todo.update), Adopt: named(todo.adopt), Release: named(todo.release), Relabel: named(todo.relabel), KeepTwins: todo.keepTwins,
			}
			if todo.burst != 250 {
				got.Burst = todo.burst
			}
			for _, twin := range o.twins {
				got.Twins = append(got.Twins, twin.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decide (-want +got), limits %s:\n%s", todo.step.Limits, diff)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	type numbers struct{ Desired, Current, Misscheduled, Ready, Updated, Available, Unavailable int32 }
	waits := agents(func(set *v1beta1.DaemonSet) { set.Spec.MinReadySeconds = 60 })
	for _, tc := range []struct {
		name  string
		set   *v1beta1.DaemonSet
		nodes []*corev1.Node
		pods  func(set *v1beta1.DaemonSet) []*corev1.Pod
		next  time.Duration
		want  numbers
		waits reason.Code
	}{
		{name: "D-25 no Pod yet", set: agents(), nodes: machines(3), want: numbers{Desired: 3, Unavailable: 3}},
		{name: "D-25 all is well", set: agents(), nodes: machines(2), pods: func(set *v1beta1.DaemonSet) []*corev1.Pod { return agentsOn(set, machines(2)) }, want: numbers{2, 2, 0, 2, 2, 2, 0}},
		{
			name: "D-25 old and not ready ones", set: agents(), nodes: machines(3),
			pods: func(set *v1beta1.DaemonSet) []*corev1.Pod {
				return []*corev1.Pod{agentOn(set, "n1", isOld), agentOn(set, "n2", isUnready), agentOn(set, "n3")}
			},
			want: numbers{3, 3, 0, 2, 2, 2, 1}, waits: rollout.UpdateLimited,
		},
		{
			name: "D-25 ready for too short a time", set: waits, nodes: machines(2),
			pods: func(set *v1beta1.DaemonSet) []*corev1.Pod {
				return []*corev1.Pod{agentOn(set, "n1", isReadySince(20*time.Second)), agentOn(set, "n2", isReadySince(time.Minute))}
			},
			next: 40 * time.Second, want: numbers{2, 2, 0, 2, 2, 1, 1},
		},
		{
			name: "D-25 ready, and its update is not complete", set: agents(), nodes: machines(1),
			pods: func(set *v1beta1.DaemonSet) []*corev1.Pod { return []*corev1.Pod{agentOn(set, "n1", isClosed)} },
			want: numbers{1, 1, 0, 1, 1, 0, 1},
		},
		{
			name: "D-25 the oldest Pod of a Node counts", set: agents(), nodes: machines(1),
			pods: func(set *v1beta1.DaemonSet) []*corev1.Pod {
				younger := agentOn(set, "n1", func(pod *corev1.Pod) { pod.Name, pod.CreationTimestamp = "agent-younger", metav1.NewTime(decidedAt) })
				return []*corev1.Pod{younger, agentOn(set, "n1", isOld, isUnready)}
			},
			want: numbers{1, 1, 0, 0, 0, 0, 1},
		},
		{
			name: "D-25 where none is to be", set: agents(), nodes: []*corev1.Node{machine("n1"), machine("n2", nodeTainted(corev1.TaintEffectNoSchedule))},
			pods: func(set *v1beta1.DaemonSet) []*corev1.Pod { return agentsOn(set, machines(2)) }, want: numbers{1, 1, 1, 1, 1, 1, 0},
		},
		{
			name: "D-25 terminating", set: agents(), nodes: machines(1),
			pods: func(set *v1beta1.DaemonSet) []*corev1.Pod {
				return []*corev1.Pod{agentOn(set, "n1", isOld, isTerminating)}
			},
			want: numbers{1, 1, 0, 1, 0, 0, 1}, waits: rollout.NodeTerminating,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var pods []*corev1.Pod
			if tc.pods != nil {
				pods = tc.pods(tc.set)
			}
			o := newObserver(t).observe(tc.set, fitted(tc.set), tc.nodes, pods)
			todo, err := decide(o)
			if err != nil {
				t.Fatal(err)
			}
			s := nextStatus(o, todo, metav1.NewTime(decidedAt), nil, nil)
			got := numbers{
				s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberUnavailable,
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if s.UpdateRevision != newestHash || s.ObservedGeneration != 3 || o.pods.NextAvailable != tc.next {
				t.Errorf("revision %q, generation %d, next after %s", s.UpdateRevision, s.ObservedGeneration, o.pods.NextAvailable)
			}
			var waits reason.Code
			if c := s.Conditions.Find(apps.ConditionWaiting); c != nil {
				waits = reason.Code(c.Reason)
			}
			if waits != tc.waits || len(s.Conditions) > 1 || len(s.Conditions) == 1 && waits == "" {
				t.Errorf("conditions %v, want one of %q", s.Conditions, tc.waits)
			}
		})
	}
}

// TestStatusSaysWhatIsOdd: the status reports requirements that no Node can meet, and values that are interpreted in
// another way than written. The controller continues in both cases.
func TestStatusSaysWhatIsOdd(t *testing.T) {
	set := agents(func(set *v1beta1.DaemonSet) {
		set.Spec.MinReadySeconds = -1
		set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "bad value"}
	})
	o := newObserver(t).observe(set, fitted(set), machines(2), nil)
	todo, err := decide(o)
	if err != nil || len(todo.step.Create) > 0 {
		t.Fatalf("decide = %+v, %v", todo, err)
	}
	status := nextStatus(o, todo, metav1.NewTime(decidedAt), nil, nil)
	if len(status.Conditions) != 1 || status.Conditions[0].Type != apps.ConditionOddSpec {
		t.Fatalf("conditions %+v, want %s alone", status.Conditions, apps.ConditionOddSpec)
	}
	for _, path := range []string{"spec.minReadySeconds", "disk"} {
		if message := status.Conditions[0].Message; !strings.Contains(message, path) {
			t.Errorf("the condition says %q, without %s", message, path)
		}
	}
}

// TestSurgeWithoutRoom: if a host port prevents the new Pod from running beside the old Pod, the conditions name the
// port, and do not suggest a higher limit.
func TestSurgeWithoutRoom(t *testing.T) {
	set := agents(func(set *v1beta1.DaemonSet) {
		rollingUpdateOf(set).RollingUpdateType = v1beta1.StandardRollingUpdateType
		rollingUpdateOf(set).MaxSurge, rollingUpdateOf(set).MaxUnavailable = number(1), number(0)
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	})
	o := newObserver(t).observe(set, fitted(set), machines(2), nil)
	todo, err := decide(o)
	if err != nil {
		t.Fatal(err)
	}
	const path, remedy = "spec.template.spec.containers[0].ports[0].hostPort", "set maxSurge to 0"
	if odd := todo.odd.String(); !strings.Contains(odd, path) || !strings.Contains(odd, "8080") || !strings.Contains(odd, remedy) {
		t.Errorf("oddities %q", odd)
	}
	limits := explainSurge(reason.List{
		{Code: rollout.UpdateLimited, Path: "spec.updateStrategy.rollingUpdate.maxSurge", Detail: "1 Node waits", Remedy: "raise the limit"},
		{Code: rollout.PartitionReached, Detail: "2 Nodes keep their revision", Remedy: "lower the partition"},
	}, crowdingOf(set))
	if text := limits.String(); !strings.Contains(text, path) || !strings.Contains(text, remedy) || strings.Contains(text, "raise") || !strings.Contains(text, "lower the partition") {
		t.Errorf("limits %q", text)
	}
}

// BenchmarkDecide5000 measures a whole decision for 5,000 Nodes and Pods with nothing to do, without reading the
// caches.
func BenchmarkDecide5000(b *testing.B) {
	const n = 5000
	set := agents(func(set *v1beta1.DaemonSet) { rollingUpdateOf(set).Partition = percentage("10%") })
	nodes := make([]*corev1.Node, n)
	for i := range nodes {
		nodes[i] = machine(fmt.Sprintf("ip-10-%d-%d.eu-central-1.compute.internal", i/256, i%256),
			nodeLabelled("kubernetes.io/os", "linux"), nodeLabelled("kubernetes.io/arch", "amd64"), nodeLabelled("topology.kubernetes.io/zone", "eu-central-1a"))
	}
	pods := agentsOn(set, nodes)
	rng := rand.New(rand.NewPCG(1, 1)) // caches list objects in no order
	rng.Shuffle(n, func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	rng.Shuffle(n, func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	watcher, f := newObserver(b), fitted(set)
	b.ReportAllocs()
	for b.Loop() {
		o := watcher.observe(set, f, nodes, pods)
		todo, err := decide(o)
		if err != nil || len(todo.step.Create)+len(todo.remove)+len(todo.update)+len(todo.relabel)+len(todo.adopt)+len(todo.release) > 0 {
			b.Fatalf("%+v, %v", todo, err)
		}
		if status := nextStatus(o, todo, metav1.NewTime(decidedAt), nil, nil); status.NumberAvailable != n {
			b.Fatalf("%+v", status)
		}
	}
}
