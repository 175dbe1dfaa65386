// Package podreadiness answers "who keeps this Pod from being ready?".
//
// A Pod's readiness gate is a condition with a single status, but several controllers may have a reason to keep the Pod
// out of service. These controllers share the gate by a list of holders in the condition's message: the status is False
// as long as the list is not empty. Each controller adds and removes only its own [Holder]. Do not share
// inplaceupdate.Keys.Gate, which has a single writer and no list.
//
//	[{"userAgent":"Lifecycle","key":"preDeleteHook"}]
//
// The list is sorted by userAgent, then by key, and is "[]" after the last holder was removed.
//
// To add or remove a holder, the message is read, modified and written. The returned changes therefore carry the
// resourceVersion of the given Pod, so that concurrent edits do not lose a holder. Package podreadiness/gatewriter
// retries such a change after a conflict. A message that cannot be parsed is an error, and is not changed.
//
// A condition is never written without a status. If a condition has no status, the next edit sets the status
// (OpenKruise leaves the status empty when it adds a holder before the condition exists).
//
// All functions are pure and safe for concurrent use, and never modify Pods.
package podreadiness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// UnreadableMessage means that the message of a shared readiness gate is not a list of holders. Writing a new list
	// could lose a holder, so somebody has to correct the message.
	UnreadableMessage reason.Code = "UnreadableMessage"
	// InvalidGate means that a function was called without the name of a readiness gate. InvalidGate means a bug in the
	// calling program.
	InvalidGate reason.Code = "InvalidGate"
	// InvalidHolder means that an edit has a holder without UserAgent. InvalidHolder means a bug in the calling
	// program.
	InvalidHolder reason.Code = "InvalidHolder"
)

// Holder is a reason to keep a Pod out of service. Both fields together identify a Holder.
type Holder struct {
	// UserAgent is the controller that keeps the Pod out of service. Required.
	UserAgent string `json:"userAgent"`
	// Key distinguishes several reasons of a controller.
	Key string `json:"key"`
}

// Edit says which holders to add to a readiness gate and which to remove. The zero value changes no holders.
type Edit struct {
	// Hold lists the holders to add. The gate is closed while there is any holder.
	Hold []Holder
	// Release lists the holders to remove, unless Hold lists them as well. The gate opens when the last holder is
	// removed.
	Release []Holder
	// Initialize also sets a missing condition to True if there is no holder. Initialize is for the controller that
	// owns the Pod; a terminating Pod gets no condition. If nobody else writes the gate, the owner may clear the
	// ResourceVersion of the change, to avoid conflicts with scheduler and kubelet.
	Initialize bool
}

// Hold returns the change that adds a holder to the gate: Edit.Change with a single holder.
func Hold(pod *corev1.Pod, gate corev1.PodConditionType, holder Holder) (podpatch.Change, error) {
	return Edit{Hold: []Holder{holder}}.Change(pod, gate)
}

// Release returns the change that removes a holder from the gate: Edit.Change with a single holder.
func Release(pod *corev1.Pod, gate corev1.PodConditionType, holder Holder) (podpatch.Change, error) {
	return Edit{Release: []Holder{holder}}.Change(pod, gate)
}

// Change returns the change that carries out the edit. The change is empty if the Pod's spec does not list the gate, or
// if there is nothing to write. Two changes of the same gate cannot be merged, so put all changes of a gate into a
// single Edit. The error carries the code UnreadableMessage, InvalidGate or InvalidHolder.
func (e Edit) Change(pod *corev1.Pod, gate corev1.PodConditionType) (podpatch.Change, error) {
	if err := e.validate(pod, gate); err != nil || !podstate.HasGate(pod, gate) {
		return podpatch.Change{}, err
	}
	list, err := read(pod, gate)
	if err != nil {
		return podpatch.Change{}, err
	}
	list, changed := e.apply(list)
	want := corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue}
	have := podstate.Condition(pod, gate)
	switch {
	case changed:
	case have == nil && (!e.Initialize || pod.DeletionTimestamp != nil):
		return podpatch.Change{}, nil
	case have == nil:
		return changeTo(pod, want), nil
	case have.Status == "": // the edit sets the missing status
	// Another client has opened the gate although there are holders.
	case len(e.Hold) > 0 && have.Status == corev1.ConditionTrue:
	default:
		return podpatch.Change{}, nil
	}
	if len(list) > 0 {
		want.Status = corev1.ConditionFalse
	}
	if have != nil {
		want.Reason = have.Reason
	}
	want.Message, err = render(list)
	return changeTo(pod, want), err
}

func changeTo(pod *corev1.Pod, condition corev1.PodCondition) podpatch.Change {
	return podpatch.Change{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Conditions: []corev1.PodCondition{condition}}
}

// apply returns the list after the edit, and whether the edit has changed the list. The caller may modify the list.
func (e Edit) apply(list []entry) (edited []entry, changed bool) {
	before := len(list)
	list = slices.DeleteFunc(list, func(have entry) bool {
		return slices.Contains(e.Release, have.Holder) && !slices.Contains(e.Hold, have.Holder)
	})
	changed = len(list) != before
	for _, holder := range e.Hold {
		if !slices.ContainsFunc(list, func(have entry) bool { return have.Holder == holder }) {
			list = append(list, entry{Holder: holder})
			changed = true
		}
	}
	return list, changed
}

func (e Edit) validate(pod *corev1.Pod, gate corev1.PodConditionType) error {
	if err := named(pod, gate); err != nil {
		return err
	}
	if err := identified(pod, "hold", e.Hold); err != nil {
		return err
	}
	return identified(pod, "release", e.Release)
}

// identified returns an error for a holder without UserAgent.
func identified(pod *corev1.Pod, field string, holders []Holder) error {
	for i := range holders {
		if holders[i].UserAgent == "" {
			return reason.Reason{
				Code: InvalidHolder, Object: object(pod), Path: fmt.Sprintf("%s[%d].userAgent", field, i), Detail: "must not be empty",
			}
		}
	}
	return nil
}

// named returns an error for a gate without name.
func named(pod *corev1.Pod, gate corev1.PodConditionType) error {
	if gate == "" {
		return reason.Reason{Code: InvalidGate, Object: object(pod), Detail: "the name of the readiness gate must not be empty"}
	}
	return nil
}

func object(pod *corev1.Pod) reason.Object {
	return reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// Holders returns the holders of the gate, sorted by UserAgent and Key, nil if there are none. The error carries the
// code UnreadableMessage or InvalidGate.
func Holders(pod *corev1.Pod, gate corev1.PodConditionType) ([]Holder, error) {
	if err := named(pod, gate); err != nil {
		return nil, err
	}
	list, err := read(pod, gate)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	slices.SortFunc(list, entry.compare)
	holders := make([]Holder, len(list))
	for i := range list {
		holders[i] = list[i].Holder
	}
	return holders, nil
}

// entry is a holder in the message. Fields unknown to the code are kept.
type entry struct {
	Holder

	raw json.RawMessage
}

func (e entry) compare(f entry) int {
	return cmp.Or(cmp.Compare(e.UserAgent, f.UserAgent), cmp.Compare(e.Key, f.Key))
}

// read parses the holders in the message of the gate's condition, each once.
func read(pod *corev1.Pod, gate corev1.PodConditionType) ([]entry, error) {
	condition := podstate.Condition(pod, gate)
	if condition == nil || condition.Message == "" || condition.Message == "[]" { // the usual case needs no decoder
		return nil, nil
	}
	unreadable := func(err error) error {
		return reason.Reason{
			Code:   UnreadableMessage,
			Object: object(pod),
			Path:   "status.conditions[" + string(gate) + "].message",
			New:    reason.Shorten(condition.Message, 80), Detail: err.Error(),
			Remedy: `correct the message; "[]" with status True removes all holders`,
		}.With(err)
	}
	var raws []json.RawMessage
	if err := json.Unmarshal([]byte(condition.Message), &raws); err != nil {
		return nil, unreadable(err)
	}
	list := make([]entry, 0, len(raws))
	for _, raw := range raws {
		e := entry{raw: raw}
		if string(raw) == "null" { // encoding/json accepts null, but null is no holder
			return nil, unreadable(errors.New("an entry is null"))
		}
		if err := json.Unmarshal(raw, &e.Holder); err != nil {
			return nil, unreadable(err)
		}
		if !slices.ContainsFunc(list, func(have entry) bool { return have.Holder == e.Holder }) {
			list = append(list, e)
		}
	}
	return list, nil
}

func render(list []entry) (string, error) {
	slices.SortFunc(list, entry.compare)
	var out bytes.Buffer
	out.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			out.WriteByte(',')
		}
		raw := e.raw
		if raw == nil {
			var err error
			if raw, err = json.Marshal(e.Holder); err != nil {
				return "", err
			}
		}
		if err := json.Compact(&out, raw); err != nil {
			return "", err
		}
	}
	out.WriteByte(']')
	return out.String(), nil
}
