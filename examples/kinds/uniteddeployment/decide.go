package uniteddeployment

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/subsets"
)

// WorkloadEnding means that the workload of a subset is being deleted, and that a finalizer delays the removal. After
// the removal, the controller creates a new workload.
const WorkloadEnding reason.Code = "WorkloadEnding"

// observation contains all inputs of a reconciliation.
type observation struct {
	ud       *v1beta1.UnitedDeployment
	settings *settings
	revision string // name of the newest revision
	// workloads are all workloads that the UnitedDeployment controls, of any kind.
	workloads []workload
	// pods returns the active Pods of a workload.
	pods func(types.UID) []*corev1.Pod
	now  time.Time
	// fromStart is true if spec.ordinals.start is effective for StatefulSets of this group.
	fromStart bool
}

// todo says what a reconciliation must do.
type todo struct {
	subsets []*part
	// surplus are deletions of workloads of a subset that has several workloads. gone are deletions of workloads of
	// removed subsets, and of workloads of another kind than the template.
	surplus, gone, changes []*write
	create                 []workload
	// err is the reason why nothing may be changed; nil if there is none.
	err      error
	division subsets.Division
	wake     time.Duration
	// remember is true if the replicas of the subsets must be written into the status before any other write.
	remember bool
}

// part is a subset, with the facts and decisions of a reconciliation about the subset.
type part struct {
	spec *v1beta1.Subset
	have workload // nil if the subset has no workload
	pods []*corev1.Pod
	was  *v1beta1.Condition // the stored condition Schedulable
	told int                // the stored number of replicas
	hold bool
	mark subsets.Mark
	// updated is the number of Pods at the newest revision, and updatedReady the number of these Pods that are ready.
	updated, updatedReady int
	reserved              []*corev1.Pod

	replicas int
	kept     int32
	create   workload
	change   *patch
	why      reason.List
}

// decide plans a whole reconciliation. The decision depends on o alone.
func decide(o *observation) *todo {
	t := &todo{}
	byName := o.sort(t)
	for i := range o.ud.Spec.Topology.Subsets {
		p := o.observe(&o.ud.Spec.Topology.Subsets[i], byName)
		t.subsets = append(t.subsets, p)
		o.judge(t, p)
	}
	o.hold(t.subsets)
	t.division, t.err = o.divide(t.subsets)
	for i, p := range t.subsets {
		if t.err == nil {
			p.replicas, p.why = t.division.Replicas[i], about(p.spec.Name, t.division.Limits)
			t.err = o.shape(t, p)
			t.remember = t.remember || o.remembers(p)
		} else if p.have != nil {
			p.replicas = int(partsOf(p.have).replicas)
			p.kept = partitionOf(o.ud, p.spec.Name, p.replicas)
		}
	}
	if t.err != nil {
		t.surplus, t.gone, t.changes, t.create, t.remember = nil, nil, nil, nil, false
	}
	return t
}

// sort finds the workload of each subset, and the workloads that must be deleted. If a subset has several workloads,
// the workload with the most ready Pods is kept; of several such workloads, the oldest.
func (o *observation) sort(t *todo) map[string]workload {
	kind, byName := reflect.TypeOf(o.settings.template.workload), map[string]workload{}
	better := func(a, b workload) int {
		return cmp.Or(
			cmp.Compare(ending(a), ending(b)), cmp.Compare(partsOf(b).ready, partsOf(a).ready),
			a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()),
		)
	}
	for _, w := range slices.SortedFunc(slices.Values(o.workloads), better) {
		name := w.GetLabels()[apps.LabelSubsetName]
		wanted := slices.ContainsFunc(o.ud.Spec.Topology.Subsets, func(s v1beta1.Subset) bool { return s.Name == name })
		switch {
		case wanted && byName[name] == nil && reflect.TypeOf(w) == kind:
			byName[name] = w
		case w.GetDeletionTimestamp() != nil:
		case wanted && reflect.TypeOf(w) == kind:
			t.surplus = append(t.surplus, &write{w, nil})
		default:
			t.gone = append(t.gone, &write{w, nil})
		}
	}
	return byName
}

func ending(w workload) int {
	if w.GetDeletionTimestamp() != nil {
		return 1
	}
	return 0
}

// observe counts the Pods of a subset.
func (o *observation) observe(spec *v1beta1.Subset, byName map[string]workload) *part {
	p := &part{spec: spec, have: byName[spec.Name], mark: subsets.Mark{Standing: subsets.Open}}
	was := o.ud.Status.SubsetStatuses
	if i := slices.IndexFunc(was, func(s v1beta1.UnitedDeploymentSubsetStatus) bool { return s.Name == spec.Name }); i >= 0 {
		p.was, p.told = was[i].Conditions.Find(apps.ConditionSubsetSchedulable), int(was[i].Replicas)
	} else if len(was) > 0 && o.settings.reserve { // a new subset is closed until its Pods run
		p.was = &v1beta1.Condition{Status: corev1.ConditionFalse, Reason: apps.ReasonSubsetCreated, LastTransitionTime: metav1.NewTime(o.now)}
	}
	if p.have == nil {
		return p
	}
	p.pods = o.pods(p.have.GetUID())
	for _, pod := range p.pods {
		if pod.Labels[apps.LabelSubsetRevision] != o.revision {
			continue
		}
		p.updated++
		if podstate.IsReady(pod) {
			p.updatedReady++
		}
	}
	return p
}

// judge decides whether a subset is closed, that is, gets no further Pods, and which of its Pods are reserved. A
// reserved Pod cannot be scheduled, and has a substitute in another subset.
func (o *observation) judge(t *todo, p *part) {
	if !o.settings.adaptive {
		return
	}
	if p.wasClosed() {
		p.mark = subsets.Mark{Standing: subsets.Closed, Since: p.was.LastTransitionTime.Time}
	}
	stuck := 0
	for _, pod := range p.pods {
		is, wait := o.settings.policy.IsStuck(pod, o.now)
		if t.soon(wait); is {
			stuck++
		}
		if o.settings.reserve {
			t.soon(o.reserve(t, p, pod))
		}
	}
	if o.settings.reserve {
		p.mark.Standing = subsets.Proving(p.mark.Standing, len(p.reserved))
		return
	}
	var wait time.Duration
	p.mark, wait = o.settings.policy.Next(p.mark, stuck, o.now)
	t.soon(wait)
}

// reserve decides whether a Pod is reserved, and returns the time until the next decision.
func (o *observation) reserve(t *todo, p *part, pod *corev1.Pod) time.Duration {
	var was *bool
	if label, ok := pod.Labels[apps.LabelReservedPod]; ok {
		was = new(label == "true")
	}
	reserved, wait := o.settings.policy.IsReserved(pod, was, p.mark.Standing, o.now)
	old := pod.Labels[apps.LabelSubsetRevision] != o.revision
	if old && was != nil && *was && partitionOf(o.ud, p.spec.Name, len(p.pods)) == 0 {
		reserved, wait = true, 0 // an old Pod proves nothing about the subset, unless the Pod is to be kept
	}
	if reserved {
		p.reserved = append(p.reserved, pod)
	}
	if label := strconv.FormatBool(reserved); pod.Labels[apps.LabelReservedPod] != label {
		t.changes = append(t.changes, &write{pod, relabelling(pod, label)})
	}
	return wait
}

// soon makes sure that the UnitedDeployment is reconciled again after the given time at the latest.
func (t *todo) soon(wait time.Duration) {
	if wait > 0 && (t.wake == 0 || wait < t.wake) {
		t.wake = wait
	}
}

// divide divides the replicas among the subsets. Unless unschedulable Pods are reserved, divide assigns every replica
// to a subset as far as the bounds of the subsets allow, because pending Pods make an autoscaler add Nodes. So closed
// subsets (subsets that get no further Pods) are opened again, the last subset first, until all replicas are
// assigned.
func (o *observation) divide(parts []*part) (subsets.Division, error) {
	states := make([]subsets.State, len(parts))
	for i, p := range parts {
		states[i] = o.state(p)
	}
	d, err := o.settings.rules.Divide(o.settings.replicas, states)
	for i := len(parts) - 1; i >= 0 && err == nil && d.Left > 0 && !o.settings.reserve; i-- {
		if states[i].Standing != subsets.Closed {
			continue
		}
		states[i].Standing = subsets.Open
		var opened subsets.Division
		if opened, err = o.settings.rules.Divide(o.settings.replicas, states); opened.Left < d.Left {
			d, parts[i].mark = opened, subsets.Mark{Standing: subsets.Open, Since: o.now}
		} else {
			states[i].Standing = subsets.Closed
		}
	}
	for i, p := range parts {
		if p.mark.Standing != subsets.OnTrial || err != nil {
			continue
		}
		p.mark = subsets.Mark{Standing: subsets.Open, Since: o.now}
		if d.Replicas[i] > states[i].Replicas {
			p.mark.Standing = subsets.Closed
		}
	}
	return d, err
}

// state returns the present state of a subset. Pods that exist in addition to the replicas, as during a rolling update,
// are not counted.
func (o *observation) state(p *part) subsets.State {
	s := subsets.State{Standing: p.mark.Standing}
	if p.have == nil {
		return s
	}
	s.Replicas = int(max(partsOf(p.have).replicas, 0))
	s.Settled = min(o.settled(p)-len(p.reserved), s.Replicas)
	if s.Hold = p.hold; p.hold {
		s.Replicas = p.told
	}
	return s
}

// about returns the reasons in limits that are about a subset.
func about(subset string, limits reason.List) reason.List {
	path := subsetPath(subset).String()
	return slices.DeleteFunc(slices.Clone(limits), func(why reason.Reason) bool { return why.Path != path && !strings.HasPrefix(why.Path, path+".") })
}

// shape compares the existing workload of a subset with the wanted workload, and plans the change.
func (o *observation) shape(t *todo, p *part) error {
	p.kept = partitionOf(o.ud, p.spec.Name, p.replicas)
	want, n, err := build(o.ud, o.settings.template, p.spec, o.revision, numbers{replicas: int32(p.replicas), kept: &p.kept, unavailable: o.unavailable(p)})
	switch {
	case err != nil:
		return fmt.Errorf("subset %s: %w", p.spec.Name, err)
	case p.have == nil:
		p.create = want
		t.create = append(t.create, want)
		return nil
	case p.have.GetDeletionTimestamp() != nil:
		p.why = append(p.why, reason.Reason{
			Code: WorkloadEnding, Object: reason.ObjectOf("workload", p.have), Detail: "it is being deleted, and is made anew when it is gone",
			Remedy: "see to its finalizers",
		})
		return nil
	}
	if p.change = changeOf(p.have, want, n); p.change != nil {
		t.changes = append(t.changes, &write{p.have, p.change})
	}
	if p.change == nil || !p.change.Whole {
		for _, pod := range o.stuckAt(p) {
			t.changes = append(t.changes, &write{pod, nil})
		}
	}
	return nil
}

// unavailable returns how many Pods of a subset may be unavailable. While Pods of the subset are reserved, the result
// is the number of Pods that are unavailable now, so that an update does not wait for Pods that cannot start. If the
// result is nil, maxUnavailable of the workload is not changed.
func (o *observation) unavailable(p *part) *intstr.IntOrString {
	if !o.settings.template.reserves {
		return nil
	}
	if o.settings.reserve && p.mark.Standing == subsets.Closed {
		n := p.replicas
		for _, pod := range p.pods {
			switch {
			case podstate.IsReady(pod):
				n--
			case pod.Labels[apps.LabelSubsetRevision] != o.revision && slices.Contains(p.reserved, pod):
				n++
			}
		}
		return new(intstr.FromInt(max(n, 1)))
	}
	if p.have == nil {
		return nil
	}
	usual, was := partsOf(o.settings.template.workload).unavailable, partsOf(p.have).unavailable
	switch {
	case was == nil || was.Type != intstr.Int || usual != nil && *usual == *was: // the value of the template
		return nil
	case usual != nil:
		return usual
	}
	if _, ok := p.have.(*appsv1.Deployment); ok {
		return new(intstr.FromString("25%"))
	}
	return new(intstr.FromString("20%"))
}

// stuckAt returns the Pods of a StatefulSet of Kubernetes that block an update: Pods that must be updated and are not
// ready. Kubernetes would wait until such Pods are ready.
func (o *observation) stuckAt(p *part) (out []*corev1.Pod) {
	set, ok := p.have.(*appsv1.StatefulSet)
	if !ok || set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	numbers, _ := workloads.Ordinals(set, o.fromStart)
	for _, pod := range p.pods {
		ordinal, ok := ordinals.OfPod(set.Name, pod)
		if before, _ := numbers.Index(ordinal); ok && before >= int(p.kept) && pod.Labels[apps.LabelSubsetRevision] != o.revision && !podstate.IsReady(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// uses reports whether any Pod has a revision.
func (o *observation) uses(rev *appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(o.workloads, func(w workload) bool {
		return w.GetLabels()[apps.LabelSubsetRevision] == rev.Name || slices.ContainsFunc(o.pods(w.GetUID()), func(pod *corev1.Pod) bool { return pod.Labels[apps.LabelSubsetRevision] == rev.Name })
	})
}
