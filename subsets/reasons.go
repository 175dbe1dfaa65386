package subsets

import "github.com/workloadkit/workloadkit/reason"

// These codes are errors: nothing is decided.
const (
	// InvalidSubsets means that the subsets are invalid: a name is missing or occurs twice, a number is out of range,
	// or Config.Fill is not set.
	InvalidSubsets reason.Code = "InvalidSubsets"
	// InvalidState means that the number of replicas or the given state of a subset is impossible.
	InvalidState reason.Code = "InvalidState"
	// BoundsCross means that the minimum of a subset is above its maximum.
	BoundsCross reason.Code = "BoundsCross"
	// SharesExceed means that the fixed shares add up to more than the replicas.
	SharesExceed reason.Code = "SharesExceed"
	// SharesShort means that each subset has a fixed share, and the shares add up to less than the replicas.
	SharesShort reason.Code = "SharesShort"
)

// These are reasons why a subset does not get more Pods.
const (
	// MinUnmet means that a subset has fewer Pods than its minimum, because there are not enough replicas for all
	// minimums, or because its capacity is too small.
	MinUnmet reason.Code = "MinUnmet"
	// MaxReached means that a subset has as many Pods as its maximum allows.
	MaxReached reason.Code = "MaxReached"
	// PlacesKept means that a subset has fewer Pods than its maximum, and the remaining places are kept for Pods whose
	// requests may still be under way.
	PlacesKept reason.Code = "PlacesKept"
	// CapacityReached means that no further Pod fits into a subset.
	CapacityReached reason.Code = "CapacityReached"
	// SubsetClosed means that a subset gets no further Pods, because Pods of the subset could not be scheduled.
	SubsetClosed reason.Code = "SubsetClosed"
)

// These are reasons why a Pod has no subset, or no place.
const (
	// UnknownSubset means that a Pod names a subset that does not exist.
	UnknownSubset reason.Code = "UnknownSubset"
	// NoSubsetFits means that a Pod names no subset, and fits none.
	NoSubsetFits reason.Code = "NoSubsetFits"
	// NoKey means that no place can be taken for a Pod that has neither name nor key.
	NoKey reason.Code = "NoKey"
	// NotCreated means that a place was taken, but the Pod was not created in time. The place is free again.
	NotCreated reason.Code = "NotCreated"
	// NotDeleted means that a place was freed for a deletion, but the Pod still exists. The Pod's place counts as taken
	// again.
	NotDeleted reason.Code = "NotDeleted"
)

// maxReasons limits the number of reasons, so that a thousand full subsets do not fill a condition.
const maxReasons = 10

func add(list *reason.List, why reason.Reason) {
	if len(*list) < maxReasons {
		*list = append(*list, why)
	}
}
