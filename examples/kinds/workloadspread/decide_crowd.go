package workloadspread

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/subsets"
)

// entry is an active Pod of a target, with its subset.
type entry struct {
	pod     *corev1.Pod
	mark    mark
	version string
	subset  string // name of the subset; empty if the Pod has none
}

func (e *entry) member() subsets.Member {
	return subsets.Member{Name: e.pod.Name, Key: e.mark.UID, Subset: e.subset, Created: e.pod.CreationTimestamp.Time}
}

// crowd contains the active Pods of a target. The Pods are read only once in a reconciliation, for all attempts to
// store the count.
type crowd struct {
	// marked contains the Pods with a mark (the annotation with the subset), by version and sorted by name; members
	// contains the same Pods in the form that package subsets needs. others contains the Pods without a mark.
	marked  map[string][]*entry
	members map[string][]subsets.Member
	others  []*entry
	// ended contains the creation times of marked Pods that have ended, by name. Pods whose place has a random key
	// are not stored here, because no later Pod has the same key.
	ended map[string]time.Time
}

// hasEnded reports whether the Pod for which a place in a subset was taken at the given time was created, and has
// ended.
func (c *crowd) hasEnded(key string, taken time.Time) bool {
	created, ended := c.ended[key]
	return ended && (created.IsZero() || !created.Before(taken))
}

// crowdOf groups the Pods by the marks (annotations with the subset) that the WorkloadSpread with the given name has
// set.
func (s *settings) crowdOf(spread string, pods []*corev1.Pod, versioned func(kind string) bool) *crowd {
	out := &crowd{marked: map[string][]*entry{}, members: map[string][]subsets.Member{}, ended: map[string]time.Time{}}
	names := s.names()
	entries := make([]entry, 0, len(pods))
	for _, pod := range pods {
		if !podstate.IsActive(pod) {
			if m, isMarked := markOf(pod, spread); isMarked {
				out.ended[pod.Name], out.ended[m.UID] = pod.CreationTimestamp.Time, time.Time{}
			}
		} else if s.selector.Matches(labels.Set(pod.Labels)) {
			entries = append(entries, entry{pod: pod, version: versionOf(pod, versioned)})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	for i := range entries {
		e := &entries[i]
		m, isMarked := markOf(e.pod, spread)
		if !isMarked {
			out.others = append(out.others, e)
			continue
		}
		if e.mark = m; slices.Contains(names, m.Subset) {
			e.subset = m.Subset
		}
		if out.marked[e.version] == nil { // most Pods have the same version
			out.marked[e.version], out.members[e.version] = make([]*entry, 0, len(entries)-i), make([]subsets.Member, 0, len(entries)-i)
		}
		out.marked[e.version] = append(out.marked[e.version], e)
		out.members[e.version] = append(out.members[e.version], e.member())
	}
	return out
}

// names returns the names of the subsets.
func (s *settings) names() []string {
	names := make([]string, len(s.subsets))
	for i := range s.subsets {
		names[i] = s.subsets[i].name
	}
	return names
}
