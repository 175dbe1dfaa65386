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

// Facts are what an owner needs to know of a Pod, whatever the time and whatever happens to other Pods.
type Facts struct {
	// Active Pods have neither ended nor a deletionTimestamp.
	Active bool
	// Ready Pods are ready, and no update in place is under way.
	Ready bool
	// Updating Pods have an update that has begun and not ended.
	Updating bool
	// Marked Pods carry the label that asks for their deletion.
	Marked bool
	State  lifecycle.State
	// Revision is what the Pod's revision label says.
	Revision string
	// Began is when the Pod was created or, if that is later, its last update in place began.
	Began time.Time
	// Unreadable says why the state of its update, or who holds its gate, cannot be read. Such a Pod
	// is not updated in place; it can be deleted.
	Unreadable error
}

// Read reads a Pod. It depends on the Pod alone.
func (c *Control) Read(pod *corev1.Pod) Facts {
	began := pod.CreationTimestamp.Time
	state, err := c.config.InPlace.State(pod)
	if state != nil && state.Started.After(began) {
		began = state.Started
	}
	return Facts{
		Active: podstate.IsActive(pod), Marked: c.IsMarked(pod), Began: began,
		Ready:    podstate.IsReady(pod) && podstate.GateOpen(pod, c.config.InPlace.Gate()),
		Updating: c.IsUpdating(pod), State: c.StateOf(pod), Revision: c.RevisionOf(pod), Unreadable: errors.Join(err, c.unreadableGate(pod)),
	}
}

// Pod is an active Pod and what its owner needs to know of it.
type Pod struct {
	*corev1.Pod
	Facts

	// Updated Pods are at the update revision.
	Updated bool
	// Available Pods count as serving: ready for long enough, in a state that counts.
	Available bool
	// Leaving Pods wait for their hook before they are deleted.
	Leaving bool
	// Named Pods are among Want.Delete.
	Named bool
	// Specified Pods are to be deleted because somebody has asked for it, by label or name, and are not Leaving.
	Specified bool
}

// Serves reports whether the Pod is ready now, however long it has been.
func (p *Pod) Serves() bool { return p.Ready && p.Facts.State.Available() }

// Want is what the Pods of an owner are compared with.
type Want struct {
	// Update is the name of the update revision. Without one every Pod counts as updated, so that none is updated to nothing.
	Update string
	// MinReady is how long a Pod must have been ready to count as available.
	MinReady time.Duration
	// Delete names Pods that are to be deleted.
	Delete []string
	// Selector is the owner's; nil selects all of its Pods.
	Selector labels.Selector
}

func (w *Want) isUpdated(facts *Facts) bool {
	return w.Update == "" || revision.Same(facts.Revision, w.Update)
}

// Set is the Pods of an owner at an instant. It is not modified after it was made.
type Set struct {
	// Active Pods, in no particular order: see ByName.
	Active []Pod
	// Inactive Pods have ended or have a deletionTimestamp.
	Inactive []*corev1.Pod
	// NotSelected Pods are controlled by the owner, but its selector does not match them. They are in none of the others.
	NotSelected []*corev1.Pod
	// NextAvailable is when another Pod may become available that no event will tell of; zero for never.
	NextAvailable time.Duration

	// inactive and notSelected say which of Inactive and NotSelected are at the update revision.
	inactive, notSelected []bool

	index  sync.Once
	byName map[string]*Pod
}

// Of returns what is known of an active Pod, nil for any other. Safe for concurrent use.
func (s *Set) Of(pod *corev1.Pod) *Pod {
	s.index.Do(func() { // most passes choose no Pod, and never ask
		s.byName = make(map[string]*Pod, len(s.Active))
		for i := range s.Active {
			s.byName[s.Active[i].Name] = &s.Active[i]
		}
	})
	return s.byName[pod.Name]
}

// Names calls yield for the names of the active Pods until it returns false.
func (s *Set) Names(yield func(name string) bool) {
	for i := range s.Active {
		if !yield(s.Active[i].Name) {
			return
		}
	}
}

// Counts sums the active Pods up for package rollout. preparingIsUpdated counts Pods that wait for their hook before an update as
// updated.
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

// Totals are numbers of active Pods, as statuses report them.
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

// Uses reports whether an active Pod was made from a revision, or updated to it.
func (s *Set) Uses(rev *appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(s.Active, func(p Pod) bool { return revision.Same(p.Revision, rev.Name) })
}

// Select returns the active Pods that pass the test, by name, so that equal sets give equal decisions.
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

// Reader reads the Pods of owners, each Pod once for as long as a cache holds the same object: it knows Pods by their pointer,
// which is safe because a cache replaces an object that changes and never modifies it. It is safe for concurrent use. Make it
// with NewReader, and have it forget what is gone: ownercache.Cache.OnReplaced takes Drop, and OnGone takes Forget.
type Reader struct {
	control *Control

	mu     sync.Mutex
	owners map[types.UID]*known
}

// known is what is remembered for one owner.
type known struct {
	mu       sync.Mutex
	selector basis
	facts    map[*corev1.Pod]selectedFacts
}

// basis is the selector that Pods were read under. Its text does not tell one that selects everything from one that selects nothing.
type basis struct {
	text string
	all  bool
}

type selectedFacts struct {
	Facts

	selected bool
}

// NewReader returns a Reader that has read nothing.
func NewReader(control *Control) *Reader {
	return &Reader{control: control, owners: map[types.UID]*known{}}
}

// Read reads the Pods of an owner. O(n), two allocations for the slices.
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

// read adds what depends on the owner and on the time.
func (s *Set) read(pod *corev1.Pod, facts Facts, want *Want, now time.Time) Pod {
	p := Pod{Pod: pod, Facts: facts, Updated: want.isUpdated(&facts), Leaving: facts.State == lifecycle.PreparingDelete}
	p.Named = len(want.Delete) > 0 && slices.Contains(want.Delete, pod.Name)
	p.Specified = !p.Leaving && (facts.Marked || p.Named)
	if p.Serves() {
		var wait time.Duration
		if p.Available, wait = available(pod, want.MinReady, now); wait > 0 && (s.NextAvailable == 0 || wait < s.NextAvailable) {
			s.NextAvailable = wait
		}
	}
	return p
}

// selectBy forgets what was read under another selector.
func (k *known) selectBy(selector labels.Selector, pods int) {
	now := basis{all: true}
	if selector != nil {
		now = basis{selector.String(), selector.Empty()}
	}
	if k.facts == nil || k.selector != now {
		k.selector, k.facts = now, make(map[*corev1.Pod]selectedFacts, pods)
	}
}

// available looks at the Pod only where time matters.
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

// shrink drops Pods that are not shown any more, where nobody calls Drop.
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

// Drop forgets an object that the cache has replaced or lost. Dropping an unknown one does nothing.
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

// Forget drops what is remembered for an owner that is gone.
func (r *Reader) Forget(owner types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
}

// Len returns of how many owners something is remembered.
func (r *Reader) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.owners)
}
