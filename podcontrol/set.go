package podcontrol

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// Facts are the properties of a Pod that its owner's decision needs, and that depend neither on the time nor on other
// Pods.
type Facts struct {
	// Active Pods have not ended and are not being deleted.
	Active bool
	// Ready Pods are ready and not being updated in place.
	Ready bool
	// Updating Pods are being updated.
	Updating bool
	// Gated Pods have the readiness gate for in-place updates, so they are not ready before an update has ended.
	Gated bool
	// Marked Pods have the label that requests their deletion. Recreated says that an update, not a user, has set the
	// label: the Pod waits for its hook and will then be recreated.
	Marked, Recreated bool
	State             lifecycle.State
	// Revision is the value of the Pod's revision label.
	Revision string
	// Began is when the Pod was created or, if later, when its last in-place update began.
	Began time.Time
	// Unreadable says why the annotations with the state of the Pod's update, or the holders of its gate, cannot be
	// parsed. Such a Pod is not updated in place, but can be deleted.
	Unreadable error
}

// Read derives Facts from a Pod. The result depends only on the Pod.
func (c *Control) Read(pod *corev1.Pod) Facts {
	began := pod.CreationTimestamp.Time
	state, err := c.config.InPlace.State(pod)
	if state != nil && state.Started.After(began) {
		began = state.Started
	}
	return Facts{
		Active: podstate.IsActive(pod), Marked: c.IsMarked(pod), Recreated: c.isRecreated(pod), Began: began,
		Ready:    podstate.IsReady(pod) && podstate.GateOpen(pod, c.config.InPlace.Gate()),
		Updating: c.IsUpdating(pod), Gated: podstate.HasGate(pod, c.config.InPlace.Gate()), State: c.StateOf(pod), Revision: c.RevisionOf(pod), Unreadable: errors.Join(err, c.unreadableGate(pod)),
	}
}

// Pod is an active Pod with the facts that its owner knows about the Pod.
type Pod struct {
	*corev1.Pod
	Facts

	// Updated Pods are at the update revision.
	Updated bool
	// Available Pods count as in service: ready for long enough, and in a lifecycle state in which Pods count as
	// available.
	Available bool
	// Leaving Pods wait for their hook and will then be deleted.
	Leaving bool
	// Named Pods are listed in Want.Delete.
	Named bool
	// Specified Pods are requested to be deleted, by label or by name, and are not Leaving yet.
	Specified bool
}

// Serves reports whether the Pod is ready now, no matter for how long.
func (p *Pod) Serves() bool { return p.Ready && p.Facts.State.Available() }

// Want is the part of an owner's spec that Read needs.
type Want struct {
	// Update is the name of the update revision. If empty, every Pod counts as updated, so that no Pod is updated to an
	// empty revision.
	Update string
	// MinReady is how long a Pod must have been ready to count as available.
	MinReady time.Duration
	// Delete are the names of Pods to delete.
	Delete []string
	// Selector is the owner's selector. If nil, all of the owner's Pods are selected.
	Selector labels.Selector
	// Away reports whether an active Pod is about to become unavailable because of an external action, such as a restart
	// of containers. Such a Pod does not count as available, whether ready or not. Nil for none.
	Away func(*corev1.Pod) bool
}

func (w *Want) isUpdated(facts *Facts) bool {
	return w.Update == "" || revision.Same(facts.Revision, w.Update)
}

// Set describes the Pods of an owner at a given time. A Set never changes after its creation.
type Set struct {
	// Active are the active Pods, in no particular order: see ByName.
	Active []Pod
	// Inactive Pods have ended or are being deleted.
	Inactive []*corev1.Pod
	// NotSelected Pods are controlled by the owner, but not matched by its selector. Neither Active nor Inactive
	// contains these Pods.
	NotSelected []*corev1.Pod
	// NextAvailable is the time until another ready Pod becomes available (Want.MinReady), if no event occurs before;
	// zero for never.
	NextAvailable time.Duration

	// inactive and notSelected say which Pods of Inactive and NotSelected are at the update revision.
	inactive, notSelected []bool

	index  sync.Once
	byName map[string]*Pod
}

// Of returns the facts about an active Pod, or nil if the Pod is not active. Of is safe for concurrent use.
func (s *Set) Of(pod *corev1.Pod) *Pod {
	s.index.Do(func() { // most reconciles need no index, so the index is made only when needed
		s.byName = make(map[string]*Pod, len(s.Active))
		for i := range s.Active {
			s.byName[s.Active[i].Name] = &s.Active[i]
		}
	})
	return s.byName[pod.Name]
}

// Names calls yield for the names of the active Pods until yield returns false.
func (s *Set) Names(yield func(name string) bool) {
	for i := range s.Active {
		if !yield(s.Active[i].Name) {
			return
		}
	}
}

// Counts counts the active Pods for package rollout. If preparingIsUpdated is true, Pods that wait for their hook
// before an update count as updated.
func (s *Set) Counts(preparingIsUpdated bool) rollout.Counts {
	var c rollout.Counts
	for i := range s.Active {
		p := &s.Active[i]
		group := &c.Old
		if p.Updated || preparingIsUpdated && p.State == lifecycle.PreparingUpdate {
			group = &c.New
		}
		group.Total++
		switch {
		case p.Leaving:
			group.PreDeleting++
		case p.Specified:
			group.Specified++
			if !p.Available {
				group.SpecifiedUnavailable++
			}
		case !p.Available:
			group.Unavailable++
		}
	}
	return c
}

// Totals are the numbers of Pods that a status reports.
type Totals struct{ Pods, Ready, Available, Updated, UpdatedReady, UpdatedAvailable int32 }

// Totals counts the active Pods.
func (s *Set) Totals() Totals {
	t := Totals{Pods: int32(len(s.Active))}
	count := func(n *int32, yes bool) {
		if yes {
			*n++
		}
	}
	for i := range s.Active {
		p := &s.Active[i]
		count(&t.Ready, p.Ready)
		count(&t.Available, p.Available)
		count(&t.Updated, p.Updated)
		count(&t.UpdatedReady, p.Updated && p.Ready)
		count(&t.UpdatedAvailable, p.Updated && p.Available)
	}
	return t
}

// Uses reports whether an active Pod was created from a revision, or updated to the revision.
func (s *Set) Uses(rev *appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(s.Active, func(p Pod) bool { return revision.Same(p.Revision, rev.Name) })
}

// Select returns the active Pods for which test returns true, sorted by name, so that equal sets lead to equal
// decisions.
func (s *Set) Select(test func(*Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range s.Active {
		if test(&s.Active[i]) {
			out = append(out, s.Active[i].Pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Reader reads the Pods of owners, and reads a Pod again only if the cache has a new object for the Pod. A Reader
// identifies a Pod by its pointer. This is safe because a cache replaces a changed object and never modifies an object.
// A Reader is safe for concurrent use. Make a Reader with NewReader, and let the cache report deleted objects: pass
// Drop to ownercache.Cache.OnReplaced, and Forget to OnGone.
type Reader struct {
	control *Control

	mu     sync.Mutex
	owners map[types.UID]*known
}

// known holds the Facts that a Reader remembers about the Pods of an owner.
type known struct {
	mu       sync.Mutex
	selector basis
	facts    map[*corev1.Pod]selectedFacts
}

// basis is the selector with which the remembered Pods were read. The selector's text alone is not enough: a selector
// that matches everything and a selector that matches nothing have the same text.
type basis struct {
	text string
	all  bool
}

type selectedFacts struct {
	Facts

	selected bool
}

// NewReader returns a Reader that remembers nothing yet.
func NewReader(control *Control) *Reader {
	return &Reader{control: control, owners: map[types.UID]*known{}}
}

// Read reads the Pods of an owner. Read takes O(n) time, with two allocations for the slices.
func (r *Reader) Read(owner types.UID, pods []*corev1.Pod, want Want, now time.Time) *Set {
	s := &Set{Active: make([]Pod, 0, len(pods))}
	k := r.known(owner, len(pods))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.selectBy(want.Selector, len(pods))
	for _, pod := range pods {
		facts, ok := k.facts[pod]
		if !ok {
			facts.Facts, facts.selected = r.control.Read(pod), want.Selector == nil || want.Selector.Matches(labels.Set(pod.Labels))
			k.facts[pod] = facts
		}
		switch {
		case !facts.selected:
			s.NotSelected, s.notSelected = append(s.NotSelected, pod), append(s.notSelected, want.isUpdated(&facts.Facts))
		case !facts.Active:
			s.Inactive, s.inactive = append(s.Inactive, pod), append(s.inactive, want.isUpdated(&facts.Facts))
		default:
			s.Active = append(s.Active, s.read(pod, facts.Facts, &want, now))
		}
	}
	k.shrink(pods)
	return s
}

// read returns a Pod with its Facts and with all values that depend on the owner and on the time.
func (s *Set) read(pod *corev1.Pod, facts Facts, want *Want, now time.Time) Pod {
	p := Pod{Pod: pod, Facts: facts, Updated: want.isUpdated(&facts), Leaving: facts.State == lifecycle.PreparingDelete}
	p.Named = len(want.Delete) > 0 && slices.Contains(want.Delete, pod.Name)
	p.Marked = p.Marked && (!p.Recreated || !p.Updated) // a Pod at the wanted revision needs no recreation
	p.Specified = !p.Leaving && (p.Marked || p.Named)
	if p.Serves() && (want.Away == nil || !want.Away(pod)) {
		var wait time.Duration
		if p.Available, wait = available(pod, want.MinReady, now); wait > 0 && (s.NextAvailable == 0 || wait < s.NextAvailable) {
			s.NextAvailable = wait
		}
	}
	return p
}

// selectBy forgets all remembered Pods if the selector has changed.
func (k *known) selectBy(selector labels.Selector, pods int) {
	now := basis{all: true}
	if selector != nil {
		now = basis{selector.String(), selector.Empty()}
	}
	if k.facts == nil || k.selector != now {
		k.selector, k.facts = now, make(map[*corev1.Pod]selectedFacts, pods)
	}
}

// available reports whether a ready Pod has been ready for minReady, and otherwise how long to wait. If minReady is
// zero, available does not read the Pod's conditions.
func available(pod *corev1.Pod, minReady time.Duration, now time.Time) (ok bool, wait time.Duration) {
	if minReady <= 0 {
		return true, 0
	}
	return podstate.Available(pod, minReady, now)
}

func (r *Reader) known(owner types.UID, pods int) *known {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.owners[owner]
	if k == nil || pods == 0 {
		k = &known{}
		r.owners[owner] = k
	}
	if pods == 0 {
		delete(r.owners, owner)
	}
	return k
}

// shrink removes Pods that the cache no longer has, for controllers that do not call Drop.
func (k *known) shrink(pods []*corev1.Pod) {
	if len(k.facts) <= len(pods)+len(pods)/16 {
		return
	}
	kept := make(map[*corev1.Pod]selectedFacts, len(pods))
	for _, pod := range pods {
		kept[pod] = k.facts[pod]
	}
	k.facts = kept
}

// Drop forgets an object that the cache has replaced or deleted. If the object is unknown, Drop does nothing.
func (r *Reader) Drop(owner types.UID, pod *corev1.Pod) {
	r.mu.Lock()
	k := r.owners[owner]
	r.mu.Unlock()
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.facts, pod)
}

// Forget removes all that the Reader remembers about a deleted owner.
func (r *Reader) Forget(owner types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
}

// Len returns the number of owners about which a Reader remembers anything.
func (r *Reader) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.owners)
}
