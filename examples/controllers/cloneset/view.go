package cloneset

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// facts are what a pass needs to know of a Pod, whatever the time and whatever happens to other Pods.
type facts struct {
	selected  bool // by the CloneSet's selector
	active    bool
	condemned bool // carries the label that asks for its deletion
	ready     bool // the Pod, and its in-place gate where it has one
	// unreadable says why the state of its update, or who holds its gate, cannot be read.
	unreadable error
	state      lifecycle.State
	revision   string // its label
}

// factsOf returns the function that finds them. It depends on Pod and selector alone.
func factsOf(selector labels.Selector, inPlace *inplaceupdate.Updater) func(*corev1.Pod) facts {
	return func(pod *corev1.Pod) facts {
		_, condemned := pod.Labels[apps.LabelSpecifiedDelete]
		_, stateErr := inPlace.State(pod)
		_, gateErr := podreadiness.Holders(pod, apps.ConditionKruisePodReady)
		return facts{
			selected: selector.Matches(labelSet(pod.Labels)), active: podstate.IsActive(pod), condemned: condemned,
			ready:      podstate.IsReady(pod) && podstate.GateOpen(pod, apps.ConditionInPlaceUpdateReady),
			unreadable: errors.Join(stateErr, gateErr), state: lifecycle.State(pod.Labels[apps.LabelLifecycleState]), revision: pod.Labels[apps.LabelRevision],
		}
	}
}

// member is one active Pod and what the owner needs to know of it.
type member struct {
	pod *corev1.Pod
	facts
	updated   bool // at the update revision
	dying     bool // in PreparingDelete
	specified bool // asked to be deleted, and not dying
	available bool
}

// view is one CloneSet and everything it owns, as the cache shows it. Objects in it are the cache's: read only.
type view struct {
	cs  *v1beta1.CloneSet
	now time.Time
	*settings

	members  []member      // active Pods, in no order until sorted
	sorted   bool          // members are ordered by name
	inactive []*corev1.Pod // ended or terminating ones
	claims   []*corev1.PersistentVolumeClaim

	revisions       []*appsv1.ControllerRevision
	current, update *appsv1.ControllerRevision

	// wake is when something has to be done again that no event will tell of.
	wake wake
	// refused counts requests of this pass that the API server did not accept.
	refused atomic.Int32
}

// setPods takes Pods with the facts of each. O(n), one allocation per slice. No Pod is looked at that need not be.
func (v *view) setPods(pods []*corev1.Pod, known []facts) {
	var named sets.Set[string]
	if len(v.cs.Spec.ScaleStrategy.PodsToDelete) > 0 {
		named = sets.New(v.cs.Spec.ScaleStrategy.PodsToDelete...)
	}
	v.members = make([]member, 0, len(pods))
	for i, pod := range pods {
		if !known[i].active {
			v.inactive = append(v.inactive, pod)
			continue
		}
		v.members = append(v.members, v.read(pod, known[i], named))
	}
}

func (v *view) read(pod *corev1.Pod, f facts, named sets.Set[string]) member {
	m := member{pod: pod, facts: f}
	m.dying = m.state == lifecycle.PreparingDelete
	m.specified = !m.dying && (m.condemned || len(named) > 0 && named.Has(pod.Name))
	switch {
	case !m.ready || !m.state.Available():
	case v.minReady == 0:
		m.available = true
	default:
		ok, wait := podstate.Available(pod, v.minReady, v.now)
		m.available = ok
		v.wake.in(wait)
	}
	return m
}

// setRevisions marks which Pods are at the update revision. preparingCounts takes Pods in PreparingUpdate for updated
// ones in the scale phase (gate PreparingUpdateAsUpdate).
func (v *view) setRevisions(current, update *appsv1.ControllerRevision) {
	v.current, v.update = current, update
	updated := 0
	for i := range v.members {
		m := &v.members[i]
		if m.updated = podstate.SameRevision(m.revision, update.Name); m.updated {
			updated++
		}
	}
	if updated == len(v.members) && updated == v.rollout.Replicas {
		v.current = update // the rollout is over, whether the status says so yet or not: nothing goes back from here
	}
}

// counts sums the members up for package rollout.
func (v *view) counts(preparingCounts bool) rollout.Counts {
	var c rollout.Counts
	for i := range v.members {
		m := &v.members[i]
		group := &c.Old
		if m.updated || (preparingCounts && m.state == lifecycle.PreparingUpdate) {
			group = &c.New
		}
		group.Total++
		switch {
		case m.dying:
			group.PreDeleting++
		case m.specified:
			group.Specified++
			if !m.available {
				group.SpecifiedUnavailable++
			}
		case !m.available:
			group.Unavailable++
		}
	}
	return c
}

// oneRevision reports whether no rollout is under way.
func (v *view) oneRevision() bool { return v.current == v.update }

// revisionOf returns the revision that a Pod was made from, nil when it is not in the history.
func (v *view) revisionOf(pod *corev1.Pod) *appsv1.ControllerRevision {
	return revision.Find(v.revisions, pod.Labels[apps.LabelRevision])
}

// whollyInPlace reports whether every Pod that is not at the update revision can be taken there in place.
func (v *view) whollyInPlace(planner *inplaceupdate.Planner) bool {
	if v.policy == v1beta1.ReCreate {
		return false
	}
	var checked *appsv1.ControllerRevision
	for i := range v.members {
		m := &v.members[i]
		if m.updated || m.dying || m.specified {
			continue
		}
		rev := v.revisionOf(m.pod)
		if rev != nil && rev == checked {
			continue
		}
		if !planner.Plan(rev, v.update).Possible() {
			return false
		}
		checked = rev
	}
	return true
}

// step asks what to do next.
func (v *view) step(planner *inplaceupdate.Planner, preparingCounts bool) rollout.Step {
	spec := v.rollout
	spec.OneRevision = v.oneRevision()
	spec.InPlace = spec.MaxSurge > 0 && v.whollyInPlace(planner)
	return rollout.Plan(spec, v.counts(preparingCounts))
}

// pods returns the Pods of the members that pass the test, by name, so that equal views give equal decisions.
func (v *view) pods(test func(*member) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range v.members {
		if test(&v.members[i]) {
			out = append(out, v.members[i].pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// member returns the member of a Pod. The members are sorted when it is first asked for, because most passes choose no Pod.
// Not safe for concurrent use.
func (v *view) member(pod *corev1.Pod) *member {
	if !v.sorted {
		slices.SortFunc(v.members, func(a, b member) int { return strings.Compare(a.pod.Name, b.pod.Name) })
		v.sorted = true
	}
	i, _ := slices.BinarySearchFunc(v.members, pod.Name, func(m member, name string) int { return strings.Compare(m.pod.Name, name) })
	return &v.members[i]
}
