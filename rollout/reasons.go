package rollout

import "github.com/workloadkit/workloadkit/reason"

// Reasons of [Plan] and of the plans in the packages numbered and pernode.
const (
	// InvalidRollout means that a plan cannot decide, because a number is negative, the wanted ordinals were never
	// computed, or Pods are counted or described wrongly.
	InvalidRollout reason.Code = "InvalidRollout"
	// ScaleUpLimited means that Pods are missing, but the limit on unavailable Pods while scaling allows fewer
	// creations now.
	ScaleUpLimited reason.Code = "ScaleUpLimited"
	// DeleteLimited means that ready Pods are to be deleted, and the budget has no room for all.
	DeleteLimited reason.Code = "DeleteLimited"
	// UpdateLimited means that Pods are to be updated, but as many Pods as the budget allows are unavailable already.
	UpdateLimited reason.Code = "UpdateLimited"
	// DeletionPending means that Pods waiting for a hook before their deletion count until they are gone. Nothing is
	// created in their place, although fewer Pods than wanted will stay. See Spec.ExcludePreDeleting.
	DeletionPending reason.Code = "DeletionPending"
	// PartitionReached means that the partition keeps all Pods still at the old revision.
	PartitionReached reason.Code = "PartitionReached"
	// RolloutPaused means that the rollout is paused while Pods wait for an update or for a requested deletion.
	RolloutPaused reason.Code = "RolloutPaused"
	// NotSelected means that the workload controls Pods not matched by its selector. Such Pods hold their ordinal or
	// Node, and no step concerns them.
	NotSelected reason.Code = "NotSelected"
)

// Reasons of package numbered.
const (
	// OrdinalTerminating means that the Pod of a wanted ordinal is terminating. Its successor of the same name can only
	// be created after the Pod is gone.
	OrdinalTerminating reason.Code = "OrdinalTerminating"
	// OrderedWait means that Pods are managed in sequence, and the next Pod waits for another Pod.
	OrderedWait reason.Code = "OrderedWait"
	// OneAtATime means that Pods are managed in sequence, so the rollout cannot use the whole limit of unavailable
	// Pods.
	OneAtATime reason.Code = "OneAtATime"
)

// Reasons of package pernode.
const (
	// NodeTerminating means that all Pods of a Node are terminating. The next Pod is created only after they are gone,
	// unless Pods may surge.
	NodeTerminating reason.Code = "NodeTerminating"
	// UnfitLimited means that old Pods stay on Nodes without a wanted Pod, until enough other Nodes have an available
	// Pod.
	UnfitLimited reason.Code = "UnfitLimited"
)
