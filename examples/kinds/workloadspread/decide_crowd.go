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

// entry is an active Pod of a target.
type entry struct {
	pod     *corev1.Pod
	mark    mark
	version string
	subset  string // empty if none
}

func (e *entry) member() subsets.Member {
	return subsets.Member{Name: e.pod.Name, Key: e.mark.UID, Subset: e.subset, Created: e.pod.CreationTimestamp.Time}
}

// crowd are the active Pods of a target, read only once for all tallies of a pass.
type crowd struct {
	// marked are the Pods that have a mark, by version, sorted by name; members are the same Pods, as Members. others
	// are the Pods without a mark.
	marked  map[string][]*entry
	members map[string][]subsets.Member
	others  []*entry
	// ended are the creation times of marked Pods that have ended, by name. A key belongs to a single Pod, and has no
	// time.
	ended map[string]time.Time
}

// hasEnded reports whether the Pod for which a place was taken at the given time has been created and has ended since.
func (c *crowd) hasEnded(key string, taken time.Time) bool {
	created, ended := c.ended[key]
	return ended && (created.IsZero() || !created.Before(taken))
}

// crowdOf reads the marks that Pods have from the WorkloadSpread with a name.
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
		out.marked[e.version] = append(out.marked[e.version], e)
		out.members[e.version] = append(out.members[e.version], e.member())
	}
	return out
}

// names are the names of the subsets.
func (s *settings) names() []string {
	names := make([]string, len(s.subsets))
	for i := range s.subsets {
		names[i] = s.subsets[i].name
	}
	return names
}
