// Package podreadiness answers "who keeps this Pod from being ready?".
//
// A Pod's readiness gate is one condition with one status, but several parties may have a reason to keep the Pod out of
// service. They share the gate by a list in the condition's message: the status is False as long as anybody is in it.
// Each party adds and removes its own [Writer] only. The gate must be another than inplaceupdate.Keys.Gate, which has one writer
// and no list.
//
//	[{"userAgent":"Lifecycle","key":"preDeleteHook"}]
//
// The list is sorted by userAgent, then key, and "[]" once everybody has let go.
//
// Adding and removing is a read-modify-write of the message. The changes returned here therefore demand the
// resourceVersion of the Pod that they were computed from, so that no writer is lost to another; package
// podreadiness/apply retries them on a fresh Pod. A message that cannot be read is an error and is left as it is.
//
// A condition is never written without a status, and one that was found without is repaired by the next edit (upstream
// leaves the status empty when it adds a writer before the condition exists).
//
// Everything here is pure and safe for concurrent use; Pods are never modified.
package podreadiness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// UnreadableMessage means that the message of a shared readiness gate is not a list of writers. Writing it anew could lose
// one, so somebody has to look at it.
const UnreadableMessage reason.Code = "UnreadableMessage"

// Writer identifies one reason to keep a Pod out of service. Both fields are part of the identity.
type Writer struct {
	// UserAgent is the party.
	UserAgent string `json:"userAgent"`
	// Key tells apart several reasons of one party.
	Key string `json:"key"`
}

// Hold returns the change that adds a writer to the gate, empty if the Pod does not have the gate or the writer holds it
// already.
func Hold(pod *corev1.Pod, gate corev1.PodConditionType, writer Writer) (podpatch.Change, error) {
	return Edit(pod, gate, []Writer{writer}, nil)
}

// Release returns the change that removes a writer from the gate, empty if it does not hold it. The gate opens when no
// other writer is left.
func Release(pod *corev1.Pod, gate corev1.PodConditionType, writer Writer) (podpatch.Change, error) {
	return Edit(pod, gate, nil, []Writer{writer})
}

// Edit returns the one change that removes the writers in release and then adds those in hold. Where one decision adds and
// removes, this is the way to do it: two changes of the same message cannot be merged. The error is a reason.Reason with
// code UnreadableMessage.
func Edit(pod *corev1.Pod, gate corev1.PodConditionType, hold, release []Writer) (podpatch.Change, error) {
	if !podstate.HasGate(pod, gate) {
		return podpatch.Change{}, nil
	}
	list, err := read(pod, gate)
	if err != nil {
		return podpatch.Change{}, err
	}
	before := len(list)
	list = slices.DeleteFunc(list, func(e entry) bool {
		return slices.Contains(release, e.Writer) && !slices.Contains(hold, e.Writer)
	})
	changed := len(list) != before
	for _, writer := range hold {
		if !slices.ContainsFunc(list, func(e entry) bool { return e.Writer == writer }) {
			list = append(list, entry{Writer: writer})
			changed = true
		}
	}
	status := corev1.ConditionTrue
	if len(list) > 0 {
		status = corev1.ConditionFalse
	}
	condition := podstate.Condition(pod, gate)
	switch {
	case changed:
	case condition == nil: // nothing to release; setting it True is for Initialize
		return podpatch.Change{}, nil
	case condition.Status == "": // no condition without a status
	case len(hold) > 0 && condition.Status == corev1.ConditionTrue: // somebody opened the gate over a writer's head
	default:
		return podpatch.Change{}, nil
	}
	message, err := render(list)
	if err != nil {
		return podpatch.Change{}, err
	}
	out := corev1.PodCondition{Type: gate, Status: status, Message: message}
	if condition != nil {
		out.Reason = condition.Reason
	}
	return podpatch.Change{
		UID: pod.UID, ResourceVersion: pod.ResourceVersion, Conditions: []corev1.PodCondition{out},
	}, nil
}

// EditOrInitialize is Edit for the owner of a Pod, which initialises the gate as well: a missing condition that nobody holds
// is set True, as Initialize does. Changes of Edit and of Initialize for one gate contradict each other; this is one change.
func EditOrInitialize(pod *corev1.Pod, gate corev1.PodConditionType, hold, release []Writer) (podpatch.Change, error) {
	change, err := Edit(pod, gate, hold, release)
	if err != nil || !change.IsEmpty() {
		return change, err
	}
	return Initialize(pod, gate), nil
}

// Holders returns who holds the gate, sorted, nil if nobody does. The error is a reason.Reason with code
// UnreadableMessage.
func Holders(pod *corev1.Pod, gate corev1.PodConditionType) ([]Writer, error) {
	list, err := read(pod, gate)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	slices.SortFunc(list, entry.compare)
	writers := make([]Writer, len(list))
	for i := range list {
		writers[i] = list[i].Writer
	}
	return writers, nil
}

// Initialize returns the change that sets those of the gates True that the Pod's spec lists and whose condition is missing,
// and an empty change for a terminating Pod. An owner merges it into the one status patch that it sends for a
// new Pod.
//
// It demands the Pod's resourceVersion, because a writer may take hold of a shared gate in the meantime. An owner whose
// gates nobody else writes may clear the change's ResourceVersion and is spared the conflicts with scheduler and kubelet.
func Initialize(pod *corev1.Pod, gates ...corev1.PodConditionType) podpatch.Change {
	if pod.DeletionTimestamp != nil {
		return podpatch.Change{}
	}
	var missing []corev1.PodCondition
	for _, gate := range gates {
		listed := slices.ContainsFunc(missing, func(c corev1.PodCondition) bool { return c.Type == gate })
		if !listed && podstate.HasGate(pod, gate) && podstate.Condition(pod, gate) == nil {
			missing = append(missing, corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue})
		}
	}
	if len(missing) == 0 {
		return podpatch.Change{}
	}
	return podpatch.Change{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Conditions: missing}
}

// entry is a writer as found. Fields that this version does not know are kept.
type entry struct {
	Writer

	raw json.RawMessage
}

func (e entry) compare(f entry) int {
	return cmp.Or(cmp.Compare(e.UserAgent, f.UserAgent), cmp.Compare(e.Key, f.Key))
}

// read returns the writers in the gate's message, each once.
func read(pod *corev1.Pod, gate corev1.PodConditionType) ([]entry, error) {
	condition := podstate.Condition(pod, gate)
	if condition == nil || condition.Message == "" || condition.Message == "[]" { // the usual case, worth no decoder
		return nil, nil
	}
	unreadable := func(err error) error {
		return reason.Reason{
			Code:   UnreadableMessage,
			Object: reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Path:   "status.conditions[" + string(gate) + "].message",
			New:    reason.Shorten(condition.Message, 80), Detail: err.Error(),
			Remedy: `correct the message; "[]" with status True lets everybody go`,
		}
	}
	var raws []json.RawMessage
	if err := json.Unmarshal([]byte(condition.Message), &raws); err != nil {
		return nil, unreadable(err)
	}
	list := make([]entry, 0, len(raws))
	for _, raw := range raws {
		e := entry{raw: raw}
		if string(raw) == "null" { // no error to encoding/json, but no writer either
			return nil, unreadable(errors.New("an entry is null"))
		}
		if err := json.Unmarshal(raw, &e.Writer); err != nil {
			return nil, unreadable(err)
		}
		if !slices.ContainsFunc(list, func(have entry) bool { return have.Writer == e.Writer }) {
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
			if raw, err = json.Marshal(e.Writer); err != nil {
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
