package rollout

import (
	"strconv"

	"github.com/workloadkit/workloadkit/reason"
)

// InvalidRollout means that Plan, Numbered or PerNode cannot decide, because a number is negative, the wanted ordinals
// were never computed, or Pods are counted or described wrongly.
const InvalidRollout reason.Code = "InvalidRollout"

// negative adds a reason for a number below zero.
func negative(problems *reason.List, path string, n int) {
	if n < 0 {
		*problems = append(*problems, reason.Reason{Code: InvalidRollout, Path: path, New: strconv.Itoa(n), Remedy: "use 0 or more"})
	}
}

func (s *Spec) isInvalid() bool {
	return min(s.Replicas, s.Partition, s.MaxUnavailable, s.MaxSurge) < 0 || s.ScaleMaxUnavailable != nil && *s.ScaleMaxUnavailable < 0
}

// isInvalid reports impossible counts. Each Pod is in at most a single part.
func (g *Group) isInvalid() bool {
	return min(g.PreDeleting, g.Specified, g.SpecifiedUnavailable, g.Unavailable) < 0 ||
		g.SpecifiedUnavailable > g.Specified || g.PreDeleting+g.Specified+g.Unavailable > g.Total
}

// problems lists the faults found by isInvalid.
func (s *Spec) problems(c Counts) reason.List {
	var out reason.List
	negative(&out, "replicas", s.Replicas)
	negative(&out, s.Paths.partition(), s.Partition)
	negative(&out, s.Paths.maxUnavailable(), s.MaxUnavailable)
	negative(&out, s.Paths.maxSurge(), s.MaxSurge)
	if s.ScaleMaxUnavailable != nil {
		negative(&out, s.Paths.scaleMaxUnavailable(), *s.ScaleMaxUnavailable)
	}
	for _, group := range []struct {
		path string
		Group
	}{{"old", c.Old}, {"new", c.New}} {
		if group.isInvalid() {
			out = append(out, reason.Reason{Code: InvalidRollout, Path: "counts." + group.path, Detail: "its parts do not add up", Remedy: "count each Pod once"})
		}
	}
	return out
}
