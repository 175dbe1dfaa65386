package sidecarcontrol

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Index finds the sets for a Pod without testing each of thousands of sets. The zero value is empty. An Index is safe
// for concurrent use.
type Index struct {
	mu   sync.RWMutex
	sets map[string]*entry
	// byLabel lists each set under one or more labels; a Pod that matches the set has at least one of the labels.
	// rest are the sets whose selectors require no particular label.
	byLabel map[label]map[string]*Set
	rest    map[string]*Set
}

// label is a label of a Pod or of a namespace.
type label struct {
	ofNamespace bool
	key, value  string
}

type entry struct {
	set    *Set
	labels []label
}

// NewIndex returns an index of sets.
func NewIndex(sets ...*Set) *Index {
	x := &Index{}
	for _, set := range sets {
		x.Put(set)
	}
	return x
}

// Put adds a set, and replaces the set with the same name. Put ignores a set that was not made by NewSet, because such
// a set matches no Pod.
func (x *Index) Put(set *Set) {
	if set == nil || set.selector == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sets == nil {
		x.sets, x.byLabel, x.rest = map[string]*entry{}, map[label]map[string]*Set{}, map[string]*Set{}
	}
	x.delete(set.spec.Name)
	e := &entry{set: set, labels: x.rarest(set.selector, false)}
	if set.namespaces != nil {
		if other := x.rarest(set.namespaces, true); e.labels == nil || other != nil && x.crowd(other) < x.crowd(e.labels) {
			e.labels = other
		}
	}
	x.sets[set.spec.Name] = e
	if len(e.labels) == 0 {
		x.rest[set.spec.Name] = set
	}
	for _, l := range e.labels {
		if x.byLabel[l] == nil {
			x.byLabel[l] = map[string]*Set{}
		}
		x.byLabel[l][set.spec.Name] = set
	}
}

// Delete removes the set with a name.
func (x *Index) Delete(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.delete(name)
}

func (x *Index) delete(name string) {
	e := x.sets[name]
	if e == nil {
		return
	}
	delete(x.sets, name)
	delete(x.rest, name)
	for _, l := range e.labels {
		if delete(x.byLabel[l], name); len(x.byLabel[l]) == 0 {
			delete(x.byLabel, l)
		}
	}
}

// rarest returns the labels under which to list a set with the selector: the labels that satisfy a single requirement
// of the selector. Among several requirements, rarest takes the requirement whose labels list the fewest other sets.
func (x *Index) rarest(selector labels.Selector, ofNamespace bool) (best []label) {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
		default:
			continue
		}
		var names []label
		for value := range r.Values() {
			names = append(names, label{ofNamespace, r.Key(), value})
		}
		if best == nil || x.crowd(names) < x.crowd(best) {
			best = names
		}
	}
	return best
}

// crowd returns the number of sets listed under the label that lists the most sets.
func (x *Index) crowd(labels []label) (n int) {
	for _, l := range labels {
		n = max(n, len(x.byLabel[l]))
	}
	return n
}

// Len returns the number of sets.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.sets)
}

// Match returns the sets that match a Pod in a namespace with the given labels, sorted by name.
func (x *Index) Match(pod *corev1.Pod, namespace map[string]string) []*Set {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []*Set
	add := func(sets map[string]*Set) {
		for set := range maps.Values(sets) {
			if set.Matches(pod.Labels, namespace) {
				found = append(found, set)
			}
		}
	}
	add(x.rest)
	for key, value := range pod.Labels {
		add(x.byLabel[label{false, key, value}])
	}
	for key, value := range namespace {
		add(x.byLabel[label{true, key, value}])
	}
	slices.SortFunc(found, func(a, b *Set) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	return slices.Compact(found)
}
