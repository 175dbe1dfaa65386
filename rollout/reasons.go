package rollout

import "github.com/workloadkit/workloadkit/reason"

// These are reasons of [Plan] and of the plans in the packages numbered and pernode.
const (
	// InvalidRollout means that a plan is impossible, because a number is negative, the wanted ordinals were not
	// computed, or Pods are counted or described wrongly.
	InvalidRollout reason.Code = "InvalidRollout"
	// ScaleUpLimited means that Pods are missing, but the limit on unavailable Pods during scaling does not allow more
	// creations now.
	ScaleUpLimited reason.Code = "ScaleUpLimited"
	// DeleteLimited means that ready Pods must be deleted, but the budget does not allow all of these deletions now.
	DeleteLimited reason.Code = "DeleteLimited"
	// UpdateLimited means that Pods must be updated, but as many Pods as the budget allows are unavailable already.
	UpdateLimited reason.Code = "UpdateLimited"
	// DeletionPending means that Pods waiting for their hook before a deletion still count. No other Pods are created in
	// their place until the Pods are removed, although fewer Pods than wanted will remain. See Spec.ExcludePreDeleting.
	DeletionPending reason.Code = "DeletionPending"
	// PartitionReached means that the partition keeps every Pod that is still at the old revision.
	PartitionReached reason.Code = "PartitionReached"
	// RolloutPaused means that the rollout is paused although Pods must still be updated, or deleted on request.
	RolloutPaused reason.Code = "RolloutPaused"
	// NotSelected means that the workload controls Pods not matched by the selector. Such Pods occupy their
	// ordinal or Node, and the plan does not change the Pods.
	NotSelected reason.Code = "NotSelected"
)

// These are reasons of package numbered.
const (
	// OrdinalTerminating means that the Pod of a wanted ordinal is terminating. Another Pod of the same name can be
	// created only after the terminating Pod is removed.
	OrdinalTerminating reason.Code = "OrdinalTerminating"
	// OrderedWait means that Pods are managed one after the other, and the next Pod waits for another Pod.
	OrderedWait reason.Code = "OrderedWait"
	// OneAtATime means that Pods are managed one after the other, so the rollout cannot use all of maxUnavailable.
	OneAtATime reason.Code = "OneAtATime"
)

// These are reasons of package pernode.
const (
	// NodeTerminating means that all Pods of a Node are terminating. The next Pod is created only after these Pods are
	// removed, unless maxSurge is set.
	NodeTerminating reason.Code = "NodeTerminating"
	// UnfitLimited means that old Pods stay on Nodes that should have none, until enough other Nodes have an available
	// Pod.
	UnfitLimited reason.Code = "UnfitLimited"
)
