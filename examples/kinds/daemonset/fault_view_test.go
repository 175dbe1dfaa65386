package daemonset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight is the input of a reconciliation: the objects in the caches before the first call. Calls before the first
// call that only check the result of an earlier write do not count.
type sight struct {
	owner *v1beta1.DaemonSet
	now   time.Time
	pods  map[types.UID]*corev1.Pod
	// places are the Nodes in descending order of their names. byName contains the same Nodes by name.
	places []*place
	byName map[string]*place
	prune  bool
	// away reports whether containers of a Pod are about to restart; nil means that there are none.
	away func(*corev1.Pod) bool
	// known reports whether the revision in a label exists. A revision of another writer counts only after the cache has
	// shown the revision.
	known func(label string) bool
	shown map[string]bool

	// adoptable are Pods that were selected and had no controller at some time during the reconciliation.
	adoptable map[types.UID]bool
	// inDoubt is true if earlier writes had got no response when the reconciliation began. decided is true after the
	// Pods were read.
	inDoubt, decided bool
	// unsure is true if the time at which the Pods were read is unknown.
	unsure bool

	// touched are Pods that the reconciliation has begun to delete or update. taken are the Nodes that lack an
	// available Pod because of these deletions and updates.
	touched map[types.UID]bool
	taken   map[string]bool
	// made counts the Pods that the reconciliation has created: first counts Pods on empty Nodes, and beside counts Pods
	// on Nodes with an available Pod.
	made, first, beside int
}

// place is a Node with the owner's Pods.
type place struct {
	*corev1.Node

	run, stay, excluded bool
	pods                []*corev1.Pod
	// running are the Pods that have not ended and are not being deleted, the oldest first. newest are at the newest
	// revision, old at older revisions.
	running, newest, old []*corev1.Pod
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	if t.Controller != "daemonset" {
		return
	}
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{adoptable: map[types.UID]bool{}, touched: map[types.UID]bool{}, taken: map[string]bool{}, prune: w.prune, away: w.agents.IsAway}
		v.known = func(label string) bool { return w.knows(label) && (v.shown[label] || !strings.HasPrefix(label, twin)) }
		t.View = v
	}
	var pods corev1.PodList
	w.must(t.Process.Cache.List(context.Background(), &pods))
	for i := range pods.Items {
		if pod := &pods.Items[i]; metav1.GetControllerOf(pod) == nil && pod.Labels["app"] == "web" {
			v.adoptable[pod.UID] = true
		}
	}
	begins := call == nil || v.asks(call)
	// Before an adoption, the reconciliation reads the DaemonSet from the API server. If there are Pods to adopt, and
	// an earlier write has got no response, the read may instead be a check of this write.
	v.unsure = v.unsure || call != nil && begins && call.Resource.Resource == "daemonsets" && len(v.adoptable) > 0
	if v.decided = v.decided || !begins && !syncsHistory(call); v.decided {
		return
	}
	if begins {
		v.now, v.pods = time.Now(), map[types.UID]*corev1.Pod{}
		if v.owner = (&v1beta1.DaemonSet{}); t.Process.Cache.Get(context.Background(), t.Object, v.owner) != nil {
			v.owner = nil
			return
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; metav1.IsControlledBy(pod, v.owner) {
				v.pods[pod.UID] = pod
			}
		}
		var revisions appsv1.ControllerRevisionList
		w.must(t.Process.Cache.List(context.Background(), &revisions))
		v.shown = map[string]bool{}
		for i := range revisions.Items {
			v.shown[revisions.Items[i].Labels[apps.LabelRevision]] = true
		}
	}
	if call == nil {
		v.inDoubt = w.reconciler.Cache.Clients().InDoubt(v.owner)
	}
	if v.owner != nil {
		var nodes corev1.NodeList
		w.must(t.Process.Cache.List(context.Background(), &nodes))
		v.arrange(nodes.Items)
	}
}

// asks reports whether a call checks an earlier write. Such calls come before the Pods are read.
func (v *sight) asks(call *faultapi.Call) bool {
	return v.inDoubt && call.Verb == "get" || call.Verb == "list"
}

// syncsHistory reports whether a call writes or reads the newest revision. Such calls come after the Pods are read,
// and before the Nodes are read.
func syncsHistory(call *faultapi.Call) bool {
	return call.Resource.Resource == "controllerrevisions" &&
		(call.Verb == "create" || call.Verb == "get" || call.Verb == "patch" && strings.Contains(string(call.Body), `"revision":`))
}

// arrange assigns the Pods to the Nodes.
func (v *sight) arrange(nodes []corev1.Node) {
	v.places, v.byName = nil, map[string]*place{}
	for i := range nodes {
		p := &place{Node: &nodes[i]}
		p.run, p.stay = fits(&v.owner.Spec.Template.Spec, p.Node)
		if s := v.rolling().Selector; s != nil {
			p.excluded = p.stay && p.Labels["wave"] != s.MatchLabels["wave"]
		}
		v.places, v.byName[p.Name] = append(v.places, p), p
	}
	slices.SortFunc(v.places, func(a, b *place) int { return strings.Compare(b.Name, a.Name) })
	for _, pod := range v.pods {
		p := v.byName[nodeOf(pod)]
		if p == nil {
			continue
		}
		if pod.DeletionTimestamp != nil && podstate.HasEnded(pod) {
			continue // despite a finalizer, nothing of the Pod is left on the Node
		}
		p.pods = append(p.pods, pod)
		if !runs(pod) {
			continue
		}
		if p.running = append(p.running, pod); v.isOutdated(pod) {
			p.old = append(p.old, pod)
		} else {
			p.newest = append(p.newest, pod)
		}
	}
	for _, p := range v.places {
		for _, list := range [][]*corev1.Pod{p.pods, p.running, p.newest, p.old} {
			slices.SortFunc(list, byAge)
		}
	}
}

// rolling returns the rolling update of the spec, or the zero value if users delete Pods.
func (v *sight) rolling() v1beta1.RollingUpdateDaemonSet {
	if v.owner.Spec.UpdateStrategy.Type == v1beta1.OnDeleteDaemonSetStrategyType {
		return v1beta1.RollingUpdateDaemonSet{}
	}
	return *v.owner.Spec.UpdateStrategy.RollingUpdate
}

func (v *sight) onDelete() bool {
	return v.owner.Spec.UpdateStrategy.Type == v1beta1.OnDeleteDaemonSetStrategyType
}

// desired counts the Nodes that should have a Pod.
func (v *sight) desired() (n int) {
	for _, p := range v.places {
		if p.run {
			n++
		}
	}
	return n
}

func (v *sight) partition() int { return share(v.rolling().Partition, v.desired(), 0) }
func (v *sight) surge() int     { return share(v.rolling().MaxSurge, v.desired(), 99) }

// most is the largest number of Nodes without an available Pod with which the controller may still take another Pod
// out of service.
func (v *sight) most() int {
	return max(share(v.rolling().MaxUnavailable, v.desired(), 99), 1)
}

func (v *sight) burst() int {
	if v.owner.Spec.BurstReplicas == nil {
		return 250
	}
	return max(share(v.owner.Spec.BurstReplicas, v.desired(), 0), 1)
}

// share returns a count, or a percentage of n. more is added before the division, which rounds down.
func share(value *intstr.IntOrString, n, more int) int {
	if value == nil || value.Type == intstr.Int {
		return int(ptr.Deref(value, intstr.IntOrString{}).IntVal)
	}
	percent := 0
	_, _ = fmt.Sscanf(value.StrVal, "%d%%", &percent)
	return (percent*n + more) / 100
}

// makesSense reports whether the spec contains only values that admission accepts.
func makesSense(set *v1beta1.DaemonSet) bool {
	budget := set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable
	return set.Spec.UpdateStrategy.Type == v1beta1.OnDeleteDaemonSetStrategyType || budget == nil || budget.StrVal != "many"
}

// fits reports how a Pod of the schedules fits a Node: run is true if the Node should get a Pod, stay if a running
// Pod may stay.
func fits(spec *corev1.PodSpec, node *corev1.Node) (run, stay bool) {
	stay = spec.NodeSelector == nil || node.Labels["pool"] == "web"
	run = stay
	for _, taint := range node.Spec.Taints {
		run, stay = run && taint.Key != dedicated && taint.Key != broken, stay && taint.Key != broken
	}
	return run, stay
}

// nodeOf returns the Node of a Pod, or the Node for which a Pod was created.
func nodeOf(pod *corev1.Pod) string {
	if a := pod.Spec.Affinity; pod.Spec.NodeName == "" && a != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
	}
	return pod.Spec.NodeName
}

func runs(pod *corev1.Pod) bool { return podstate.IsActive(pod) && pod.Labels["app"] == "web" }

func waits(pod *corev1.Pod) bool { return pod.Labels[apps.LabelLifecycleState] == "PreparingDelete" }

func byAge(a, b *corev1.Pod) int {
	if on := a.Spec.NodeName != ""; on != (b.Spec.NodeName != "") {
		if on {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// appOf returns the fields of a Pod's spec that the schedules change in templates.
func appOf(spec corev1.PodSpec) string {
	return fmt.Sprint(spec.Containers[0].Image, spec.Containers[0].Command, spec.NodeSelector)
}

func (v *sight) isOutdated(pod *corev1.Pod) bool {
	return appOf(pod.Spec) != appOf(v.owner.Spec.Template.Spec) || !v.known(pod.Labels[apps.LabelRevision])
}

// isAvailable reports whether a Pod was ready for minReadySeconds, and is not about to be taken out of service.
func (v *sight) isAvailable(pod *corev1.Pod) bool {
	ready := podstate.Condition(pod, corev1.PodReady)
	state := pod.Labels[apps.LabelLifecycleState]
	return runs(pod) && (v.away == nil || !v.away(pod)) && podstate.IsReady(pod) && podstate.GateOpen(pod, apps.ConditionInPlaceUpdateReady) && (state == "" || state == "Normal") &&
		!ready.LastTransitionTime.Add(time.Duration(v.owner.Spec.MinReadySeconds)*time.Second).After(v.now)
}

// serves reports whether a Node has an available Pod that the reconciliation has not changed.
func (v *sight) serves(p *place) bool {
	return !v.taken[p.Name] && slices.ContainsFunc(p.running, v.isAvailable)
}

// waiting returns the Nodes that have no Pod yet because the partition limits the creation of Pods.
func (v *sight) waiting() map[string]bool {
	out := map[string]bool{}
	scale := v.owner.Spec.ScaleStrategy
	if scale == nil || !scale.PartitionedScaling || v.partition() == 0 || v.onDelete() {
		return out
	}
	left := v.desired() - v.partition()
	var free []string
	for _, p := range v.places {
		switch {
		case !p.run:
		case v.surge() == 0 && len(p.pods) == 0, v.surge() > 0 && len(p.running) == 0:
			free = append(free, p.Name)
		case v.holdsNewest(p):
			left--
		}
	}
	slices.Sort(free)
	for _, name := range free[min(max(left, 0), len(free)):] {
		out[name] = true
	}
	return out
}

// holdsNewest reports whether a Node has a Pod at the newest revision, or will get such a Pod when its present Pod
// has ended.
func (v *sight) holdsNewest(p *place) bool {
	if v.surge() > 0 {
		return len(p.newest) > 0
	}
	return slices.ContainsFunc(p.pods, func(pod *corev1.Pod) bool { return !v.isOutdated(pod) })
}

// isUnfit reports whether the update may delete a Pod because the Pod's Node should have no Pod. In the first case,
// the Pod is old and not available, or more Nodes than wanted have an available Pod. In the second case, the Pod is
// new, and still waits beside an old Pod because the Node does not accept the new Pod.
func (v *sight) isUnfit(p *place, pod *corev1.Pod) bool {
	leftOut := v.prune && !slices.ContainsFunc(v.places, func(o *place) bool { return o.run && !o.excluded && len(o.old) > 0 })
	takesPart := leftOut || !v.prune && v.surge() > 0 && slices.Contains(v.kept(), p)
	if p.run || !p.stay || p.excluded || v.onDelete() || ptr.Deref(v.rolling().Paused, false) || !takesPart {
		return false
	}
	if !v.isOutdated(pod) {
		return len(p.old) > 0 && pod.Spec.NodeName == ""
	}
	more := len(v.waiting()) - v.desired()
	for _, other := range v.places {
		if other.stay && !v.taken[other.Name] && slices.ContainsFunc(other.running, v.isAvailable) {
			more++
		}
	}
	if !v.isAvailable(pod) {
		return true
	}
	v.taken[p.Name] = more > 0
	return more > 0
}

// kept returns the Nodes whose Pods may be at the newest revision: first Nodes with an updated Pod, then Nodes whose
// update has begun, then Nodes that the selector does not exclude, in descending order of their names. As many Nodes
// as the partition says are left out.
func (v *sight) kept() (kept []*place) {
	all, waiting := 0, v.waiting()
	var updated, under, old []*place
	for _, p := range v.places {
		if !p.run && (v.prune || len(p.pods) == 0) {
			continue
		}
		all++
		switch {
		case waiting[p.Name]: // the Node counts as one of the kept Nodes
		case len(p.newest) > 0 || len(p.old) > 1:
			updated = append(updated, p)
		case len(p.old) == 0 || waits(p.old[0]) || !p.stay:
			under = append(under, p)
		case !p.excluded:
			old = append(old, p)
		}
	}
	nodes := slices.Concat(updated, under, old)
	return nodes[:min(max(all-v.partition(), 0), len(nodes))]
}
