package disruption

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// InvalidBounds means that a budget sets both or neither of maxUnavailable and minAvailable.
const InvalidBounds reason.Code = "InvalidBounds"

// Bounds says how many Pods must stay in service. Exactly one field must be set, to a number or to a percentage of
// the expected Pods.
type Bounds struct {
	MaxUnavailable, MinAvailable *intstr.IntOrString
}

// Need returns how many of the expected Pods must stay in service. Percentages are rounded up, as in
// PodDisruptionBudgets. Need never exceeds expected: a budget of 3 for a workload scaled to 2 protects both Pods, and
// for a workload scaled to 0 no Pod. An expected number below 0 counts as 0. path is the path of the fields' parent,
// for the returned error: InvalidBounds or partition.InvalidValue. If Need returns an error, the result is the number
// of all expected Pods: a caller that ignores the error protects too many Pods, not too few.
func (b Bounds) Need(path string, expected int32) (int32, error) {
	if (b.MaxUnavailable == nil) == (b.MinAvailable == nil) {
		return max(expected, 0), reason.Reason{Code: InvalidBounds, Path: path, Detail: "exactly one of maxUnavailable and minAvailable is needed"}
	}
	total := int(max(expected, 0))
	if b.MinAvailable != nil {
		need, err := partition.Resolve(path+".minAvailable", b.MinAvailable, total, partition.Up)
		if err != nil {
			return int32(total), err //nolint:gosec // total was computed from an int32
		}
		return int32(min(need, total)), nil //nolint:gosec // the number is at most the largest int32
	}
	away, err := partition.Resolve(path+".maxUnavailable", b.MaxUnavailable, total, partition.Up)
	if err != nil {
		return int32(total), err //nolint:gosec // total was computed from an int32
	}
	return int32(max(total-away, 0)), nil //nolint:gosec // the number is at most the largest int32
}
