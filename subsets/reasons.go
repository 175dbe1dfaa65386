package subsets

import "github.com/workloadkit/workloadkit/reason"

// Errors: nothing is decided.
const (
	// InvalidSubsets means that subsets cannot be divided among: a name is missing or given twice, a number is out of
	// its place, or the caller has not said how to fill subsets.
	InvalidSubsets reason.Code = "InvalidSubsets"
	// InvalidState means that the number of replicas or the described state of a subset is impossible.
	InvalidState reason.Code = "InvalidState"
	// BoundsCross means that the minimum of a subset is above its maximum.
	BoundsCross reason.Code = "BoundsCross"
	// SharesExceed means that the fixed shares are together more than the replicas.
	SharesExceed reason.Code = "SharesExceed"
	// SharesShort means that each subset has a fixed share, and all shares together are fewer than the replicas.
	SharesShort reason.Code = "SharesShort"
)

// Why a subset does not get more Pods.
const (
	// MinUnmet means that a subset has fewer Pods than its minimum, because there are too few replicas for all
	// minimums, or too little capacity.
	MinUnmet reason.Code = "MinUnmet"
	// MaxReached means that a subset has as many Pods as its maximum allows.
	MaxReached reason.Code = "MaxReached"
	// CapacityReached means that no further Pod fits into a subset.
	CapacityReached reason.Code = "CapacityReached"
	// SubsetClosed means that a subset gets no further Pods, because Pods there cannot be scheduled.
	SubsetClosed reason.Code = "SubsetClosed"
)

// Why a Pod has no subset, or no place.
const (
	// UnknownSubset means that a Pod names a subset that does not exist.
	UnknownSubset reason.Code = "UnknownSubset"
	// NoSubsetFits means that a Pod names no subset, and might run in none.
	NoSubsetFits reason.Code = "NoSubsetFits"
	// NoKey means that a place cannot be taken for a Pod without name and key.
	NoKey reason.Code = "NoKey"
	// NotCreated means that a place was taken, and the Pod did not appear in time. The place is free again.
	NotCreated reason.Code = "NotCreated"
	// NotDeleted means that a place was given back for a deletion, and the Pod is still there. The Pod has the place
	// again.
	NotDeleted reason.Code = "NotDeleted"
)

// maxReasons bounds the reasons of a decision, so that a thousand full subsets do not fill a condition.
const maxReasons = 10

func add(list *reason.List, why reason.Reason) {
	if len(*list) < maxReasons {
		*list = append(*list, why)
	}
}
