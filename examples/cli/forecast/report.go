package forecast

import (
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Action is the fate of a Pod.
type Action string

// These are the actions.
const (
	// Keep means that the Pod is not changed.
	Keep Action = "keep"
	// InPlace means that the Pod is changed and stays.
	InPlace Action = "inPlace"
	// Recreate means that the Pod is deleted, and that a new Pod replaces the Pod.
	Recreate Action = "recreate"
	// Delete means that the Pod is deleted without a successor.
	Delete Action = "delete"
	// Create means that the Pod is new, and does not replace another Pod.
	Create Action = "create"
)

// Report describes the effects of a change. The zero value describes a change without effect.
type Report struct {
	// Object is the changed object, such as "CloneSet web".
	Object string `json:"object"`
	// Refused is the message of the webhook that refuses the change.
	Refused string `json:"refused,omitempty"`
	// Pods are the Pods in the order of their changes, then the kept Pods.
	Pods []Pod `json:"pods,omitempty"`
	// Batches are groups of Pods that are changed at the same time.
	Batches []Batch `json:"batches,omitempty"`
	// Claims are the claims that are created, grow, or are deleted.
	Claims  []Claim  `json:"claims,omitempty"`
	Budgets []Budget `json:"budgets,omitempty"`
	// Stops are the reasons for an incomplete rollout, the most important reason first; empty for a complete rollout.
	Stops []Stop `json:"stops,omitempty"`
	// Outcome describes the end of the rollout in a sentence.
	Outcome string `json:"outcome,omitempty"`
	// Takes is the duration of the rollout, computed from the measured times; empty if unknown.
	Takes string `json:"takes,omitempty"`
	// Measured are the measured times.
	Measured Measured `json:"measured"`
	Warnings []string `json:"warnings,omitempty"`
	// Unread names the objects that the user may not read, with the consequences for the report.
	Unread []string `json:"unread,omitempty"`
}

// Measured are the measured times as text; empty means unknown.
type Measured struct {
	Restart string `json:"restart,omitempty"`
	Create  string `json:"create,omitempty"`
}

// Pod is the fate of a Pod.
type Pod struct {
	Name   string `json:"name"`
	UID    string `json:"uid,omitempty"`
	Action Action `json:"action"`
	// Batch is the number of the batch, from 1; 0 for a Pod that is kept.
	Batch int `json:"batch,omitempty"`
	// Restarts are the containers restarted in place, and Resizes the resized containers.
	Restarts []string `json:"restarts,omitempty"`
	Resizes  []string `json:"resizes,omitempty"`
	// Reasons say why the Pod is not updated in place.
	Reasons []Reason `json:"reasons,omitempty"`
}

// Reason is a reason in a form for JSON.
type Reason struct {
	Code   string `json:"code"`
	Path   string `json:"path,omitempty"`
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Batch is a group of Pods that are changed at the same time.
type Batch struct {
	// After is the time from the user's change to the batch.
	After time.Duration `json:"afterNanoseconds"`
	Pods  []string      `json:"pods"`
}

// Claim is a changed PersistentVolumeClaim.
type Claim struct {
	Name string `json:"name"`
	// Action is create, grow or delete.
	Action string `json:"action"`
	Detail string `json:"detail,omitempty"`
}

// Stop is a reason why a rollout does not continue.
type Stop struct {
	Code   string   `json:"code"`
	Object string   `json:"object,omitempty"`
	Detail string   `json:"detail,omitempty"`
	Ends   string   `json:"endedBy,omitempty"`
	Pods   []string `json:"pods,omitempty"`
}

// Count returns the number of Pods with an action.
func (r *Report) Count(action Action) (n int) {
	for i := range r.Pods {
		if r.Pods[i].Action == action {
			n++
		}
	}
	return n
}

// reasonsOf returns reasons in a form for JSON.
func reasonsOf(list reason.List) (out []Reason) {
	for i := range list {
		out = append(out, Reason{Code: string(list[i].Code), Path: list[i].Path, Old: list[i].Old, New: list[i].New, Detail: list[i].Detail})
	}
	return out
}
