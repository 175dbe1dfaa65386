package rollout

import (
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/internal/limits"
)

func (s *Spec) isInvalid() bool {
	return min(s.Replicas, s.Partition, s.MaxUnavailable, s.MaxSurge) < 0 ||
		s.ScaleMaxUnavailable != nil && *s.ScaleMaxUnavailable < 0
}

// isInvalid reports whether the counts are impossible: a number is negative, or the parts together count more Pods
// than Total.
func (g *Group) isInvalid() bool {
	return min(g.PreDeleting, g.Specified, g.SpecifiedUnavailable, g.Unavailable) < 0 ||
		g.SpecifiedUnavailable > g.Specified || g.PreDeleting+g.Specified+g.Unavailable > g.Total
}

// problems returns a reason for each fault found by isInvalid.
func (s *Spec) problems(c Counts) reason.List {
	var out reason.List
	paths := s.paths()
	limits.Negative(&out, InvalidRollout, "replicas", s.Replicas)
	limits.Negative(&out, InvalidRollout, paths.Partition, s.Partition)
	limits.Negative(&out, InvalidRollout, paths.MaxUnavailable, s.MaxUnavailable)
	limits.Negative(&out, InvalidRollout, paths.MaxSurge, s.MaxSurge)
	if s.ScaleMaxUnavailable != nil {
		limits.Negative(&out, InvalidRollout, paths.ScaleMaxUnavailable, *s.ScaleMaxUnavailable)
	}
	for _, group := range []struct {
		path string
		Group
	}{{"old", c.Old}, {"new", c.New}} {
		if group.isInvalid() {
			out = append(out, reason.Reason{
				Code: InvalidRollout, Path: "counts." + group.path,
				Detail: "its parts do not add up", Remedy: "count each Pod once",
			})
		}
	}
	return out
}
