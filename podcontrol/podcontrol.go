package podcontrol

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// Config names the labels, annotations and conditions that a controller uses on its Pods. Only InPlace and
// RevisionLabel are required. All labels must be among inplaceupdate.Keys.Reserved, so that no template changes these
// labels.
type Config struct {
	// InPlace makes in-place updates. If InPlace has a readiness gate, new Pods get the gate.
	InPlace *inplaceupdate.Updater
	// RevisionLabel is the label with the name of a Pod's revision, without the owner's name, so that the value fits
	// into a label.
	RevisionLabel string
	// FullRevisions puts the whole name of the revision into RevisionLabel, as OpenKruise does. A label value has at
	// most 63 characters: the API server refuses the Pods of owners with names longer than about 52 characters.
	FullRevisions bool
	// HashLabel is a second label with the revision's name without the owner's name; empty for none.
	HashLabel string
	// DeleteLabel is the label by which a user, or Update, requests a Pod's deletion; empty for none. Update sets the
	// value RecreateMark, which is ignored once the Pod is at its wanted revision; any other value comes from a user.
	// If the label is removed while the Pod waits for its hook, the deletion is cancelled, unless a hook has
	// MarkNotReady.
	DeleteLabel string
	// Lifecycle decides, from the owner's hooks, which lifecycle state a Pod has next. The zero Machine is for owners
	// without hooks: the Pods of such owners have no lifecycle state.
	Lifecycle lifecycle.Machine
	// HookGate is the readiness gate that hooks with MarkNotReady close to take a Pod out of service. New Pods get
	// the gate. Older Pods without the gate stay in service while they wait for a hook. Holder returns the name under
	// which a hook closes the gate (podreadiness.Holder), a different name for each kind of hook. Set both fields or
	// neither.
	HookGate corev1.PodConditionType
	Holder   func(lifecycle.HookName) podreadiness.Holder
	// CountUnscheduled allows the lifecycle state Normal for new Pods that are not bound to a node yet. Pods are
	// created as Normal, unless a preNormal hook waits for a label or finalizer that the template lacks.
	CountUnscheduled bool
	// If OnlyPreDelete is set, no lifecycle state is written on Pods, except on Pods that wait for their hook before a
	// deletion. Set OnlyPreDelete if owners have no other hook.
	OnlyPreDelete bool
	// NeedsGate recreates Pods that lack InPlace's gate instead of updating these Pods in place: without the gate,
	// nothing would take such a Pod out of service before its update, or show the end of the update.
	NeedsGate bool
	// GateWhereUpdated gives new Pods InPlace's gate only if the rules update Pods in place, so that other Pods need no
	// write to open the gate. A Pod without the gate stays in service during an in-place update. A template may list
	// the gate itself.
	GateWhereUpdated bool
}

// Control decides what a single Pod needs next. A Control is safe for concurrent use. Make a Control with New.
type Control struct{ config Config }

// New returns a Control. The error names the missing or contradictory field of the config.
func New(config Config) (*Control, error) {
	switch {
	case config.InPlace == nil:
		return nil, errors.New("podcontrol: Config.InPlace is required")
	case config.RevisionLabel == "":
		return nil, errors.New("podcontrol: Config.RevisionLabel is required")
	case (config.HookGate == "") != (config.Holder == nil):
		return nil, errors.New("podcontrol: Config.HookGate and Config.Holder need each other")
	case config.NeedsGate && config.InPlace.Gate() == "":
		return nil, errors.New("podcontrol: Config.NeedsGate needs a Config.InPlace with a gate: no Pod would be updated in place")
	case config.HookGate != "" && config.HookGate == config.InPlace.Gate():
		return nil, fmt.Errorf("podcontrol: Config.HookGate must be another gate than %q, which has one writer", config.HookGate)
	}
	if config.Holder != nil {
		deletion, update := config.Holder(lifecycle.PreDelete), config.Holder(lifecycle.InPlaceUpdate)
		if deletion.UserAgent == "" || update.UserAgent == "" || deletion == update {
			return nil, fmt.Errorf("podcontrol: Config.Holder must name a UserAgent, and tell kinds of hooks apart: it returns %+v for deletions, %+v for updates", deletion, update)
		}
	}
	if err := checkLabels(&config); err != nil {
		return nil, err
	}
	return &Control{config: config}, nil
}

// checkLabels returns an error for labels that are not reserved, and for labels with two uses.
func checkLabels(config *Config) error {
	users := map[string]string{}
	for _, label := range []struct{ field, key string }{
		{"RevisionLabel", config.RevisionLabel},
		{"HashLabel", config.HashLabel},
		{"DeleteLabel", config.DeleteLabel},
		{"Lifecycle's state", config.Lifecycle.Keys().State},
	} {
		if label.key == "" {
			continue
		}
		if other, taken := users[label.key]; taken {
			return fmt.Errorf("podcontrol: Config.%s and Config.%s are both %q", other, label.field, label.key)
		}
		users[label.key] = label.field
		if !isReserved(config.InPlace, label.key) {
			return fmt.Errorf("podcontrol: label %q must be among the Reserved keys of Config.InPlace, or templates could set it", label.key)
		}
	}
	return nil
}

func isReserved(updater *inplaceupdate.Updater, label string) bool {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: ""}}}
	return len(updater.ValidateTemplate(template)) > 0
}

// InvalidRules means that nothing is done to a Pod because the rules have an unknown policy, a hook that never holds a
// Pod, or hooks although the Config has no names for hooks: see Validate.
const InvalidRules reason.Code = "InvalidRules"

// GateMissing means that a Pod is not updated in place because the Pod lacks the readiness gate for updates: when the
// Pod was created, its owner's rules did not allow in-place updates.
const GateMissing reason.Code = "GateMissing"

// Policy says how Pods are updated to another revision.
type Policy string

const (
	// Recreate deletes Pods, and the owner creates new Pods. The empty Policy means the same.
	Recreate Policy = "Recreate"
	// InPlaceIfPossible updates Pods in place, and recreates a Pod if its change cannot be made in place or if the API
	// server refuses the change.
	InPlaceIfPossible Policy = "InPlaceIfPossible"
	// InPlaceOnly never deletes a Pod because of an update.
	InPlaceOnly Policy = "InPlaceOnly"
)

// Recreates reports whether the policy always recreates Pods.
func (p Policy) Recreates() bool { return p == Recreate || p == "" }

// Rules are the settings for Pods in an owner's spec: update policy and hooks. The zero value recreates Pods for
// updates and has no hooks.
type Rules struct {
	Hooks  lifecycle.Hooks
	Policy Policy
	// GracePeriod is how long a Pod is out of service before its in-place update, in whole seconds, rounded up.
	GracePeriod time.Duration
}

// RevisionLabels returns the labels that mark a Pod's revision, for new Pods and for inplaceupdate.Target.Labels. If
// name is empty, RevisionLabels returns no labels.
func (c *Control) RevisionLabels(name string) map[string]string {
	if name == "" {
		return map[string]string{}
	}
	short := revision.ShortName(name)
	labels := map[string]string{c.config.RevisionLabel: short}
	if c.config.FullRevisions {
		labels[c.config.RevisionLabel] = name
	}
	if c.config.HashLabel != "" {
		labels[c.config.HashLabel] = short
	}
	return labels
}

// NewPod returns a Pod of a revision for its owner, from the revision's template. The Pod has the readiness gates, the
// revision labels, the first lifecycle state, and the labels and finalizers of hooks, see lifecycle.Machine.Stamp.
// NewPod leaves out the template's labels and annotations that only the controller may write. An empty revisionName
// means that Pods have no revisions. The caller must set Name or GenerateName. NewPod does not modify the template.
func (c *Control) NewPod(
	template *corev1.PodTemplateSpec, namespace string, owner metav1.OwnerReference, rules Rules, revisionName string, now time.Time,
) *corev1.Pod {
	gates := []corev1.PodConditionType{c.config.InPlace.Gate(), c.config.HookGate}
	if c.config.GateWhereUpdated && rules.Policy.Recreates() {
		gates = gates[1:]
	}
	gates = slices.DeleteFunc(gates, func(gate corev1.PodConditionType) bool { return gate == "" })
	pod := podstate.FromTemplate(template, namespace, owner, gates...)
	c.config.InPlace.StripReserved(&pod.ObjectMeta)
	maps.Copy(pod.Labels, c.RevisionLabels(revisionName))
	state := lifecycle.PreparingNormal
	switch {
	case c.config.OnlyPreDelete:
		state = ""
	case c.config.CountUnscheduled:
		state = rules.Hooks.Initial(&pod.ObjectMeta)
	}
	c.machine(rules).Stamp(&pod.ObjectMeta, state, now)
	return pod
}

// RevisionOf returns the value of the Pod's revision label.
func (c *Control) RevisionOf(pod *corev1.Pod) string { return pod.Labels[c.config.RevisionLabel] }

// StateOf returns the Pod's lifecycle state; empty if the Pod has none.
func (c *Control) StateOf(pod *corev1.Pod) lifecycle.State {
	return c.config.Lifecycle.State(pod)
}

// IsUpdating reports whether an update of the Pod has begun and has not ended. If the Pod has no lifecycle state, the
// gate decides.
func (c *Control) IsUpdating(pod *corev1.Pod) bool {
	if state := c.StateOf(pod); state != "" {
		return state == lifecycle.Updating
	}
	return !podstate.GateOpen(pod, c.config.InPlace.Gate())
}

// IsMarked reports whether a label of the Pod requests the Pod's deletion.
func (c *Control) IsMarked(pod *corev1.Pod) bool {
	_, ok := pod.Labels[c.config.DeleteLabel]
	return ok && c.config.DeleteLabel != ""
}

// RecreateMark is the value of Config.DeleteLabel on a Pod that waits for its hook because an update will recreate the
// Pod.
const RecreateMark = "recreate"

// mark sets the label that requests a Pod's deletion, so that no later decision cancels the deletion. A user's value
// of the label is not overwritten, even if the cache does not show the value yet.
func (c *Control) mark(pod *corev1.Pod) podpatch.Change {
	if c.config.DeleteLabel == "" || c.IsMarked(pod) {
		return podpatch.Change{}
	}
	value := RecreateMark
	return podpatch.Change{ResourceVersion: pod.ResourceVersion, Labels: map[string]*string{c.config.DeleteLabel: &value}}
}

// unmark removes the label if an update has set the label.
func (c *Control) unmark(pod *corev1.Pod) podpatch.Change {
	if !c.isRecreated(pod) {
		return podpatch.Change{}
	}
	return podpatch.Change{ResourceVersion: pod.ResourceVersion, Labels: map[string]*string{c.config.DeleteLabel: nil}}
}

// isRecreated reports whether an update, not a user, has set the Pod's delete label.
func (c *Control) isRecreated(pod *corev1.Pod) bool {
	return c.config.DeleteLabel != "" && pod.Labels[c.config.DeleteLabel] == RecreateMark
}

// missingHash adds the hash label to a Pod without the label: older controllers do not write this label.
func (c *Control) missingHash(pod *corev1.Pod) podpatch.Change {
	label := c.RevisionOf(pod)
	if c.config.HashLabel == "" || label == "" || pod.Labels[c.config.HashLabel] != "" {
		return podpatch.Change{}
	}
	hash := revision.ShortName(label)
	return podpatch.Change{Labels: map[string]*string{c.config.HashLabel: &hash}}
}
