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

// Config names a controller's keys on its Pods. Only InPlace and RevisionLabel are required. The labels must be among
// inplaceupdate.Keys.Reserved, so no template changes them.
type Config struct {
	// InPlace updates Pods in place. New Pods get the gate of InPlace, if InPlace has a gate.
	InPlace *inplaceupdate.Updater
	// RevisionLabel holds the name of a Pod's revision without the owner's name, in order to fit a label.
	RevisionLabel string
	// FullRevisions has RevisionLabel hold the whole name, as OpenKruise does. A label has 63 characters at most: the API
	// server refuses the Pods of owners with names longer than about 52.
	FullRevisions bool
	// HashLabel also holds the revision's name without the owner's name; empty for none.
	HashLabel string
	// DeleteLabel is the label by which a user, or Update, asks for a Pod's deletion; empty for none. Update sets the
	// value RecreateMark, which is void once the Pod is at its wanted revision; any other value is a user's. After the
	// removal of the label a Pod waiting for its hook is taken back, unless a hook has MarkNotReady.
	DeleteLabel string
	// Lifecycle decides about the states of a Pod's hooks. The zero Machine is for owners without hooks: Pods have no
	// state then.
	Lifecycle lifecycle.Machine
	// HookGate is the readiness gate closed by hooks with MarkNotReady, to take a Pod out of service. New Pods get the
	// gate. Older Pods without the gate stay in service while they wait. Holder names the gate's holder, a different
	// holder for each kind of hook. Both fields or none are needed.
	HookGate corev1.PodConditionType
	Holder   func(lifecycle.HookName) podreadiness.Holder
	// CountUnscheduled lets new Pods count as normal before they have a node. Pods are created as normal, unless a
	// preNormal hook waits for a mark missing in their template.
	CountUnscheduled bool
	// OnlyPreDelete leaves Pods without a state, except Pods waiting for their hook before a deletion: for owners with no
	// further hook.
	OnlyPreDelete bool
	// NeedsGate recreates Pods without the gate of InPlace instead of updating them in place: nothing would take them out
	// of service first, or tell the end of their update.
	NeedsGate bool
	// GateWhereUpdated gives new Pods the gate of InPlace only if the rules update Pods in place, so all further Pods need
	// no write to open a gate. A Pod without the gate stays in service before an update in place. A template may list the
	// gate itself.
	GateWhereUpdated bool
}

// Control decides about single Pods. A Control is safe for concurrent use. Make a Control with New.
type Control struct{ config Config }

// New returns a Control. The error names the missing or contradictory part of the config.
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

// checkLabels refuses labels open to templates, and labels with two uses.
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

// InvalidRules means that nothing is done to a Pod, because the rules have an unknown policy, a hook that never holds a
// Pod, or hooks without names in the Config: see Validate.
const InvalidRules reason.Code = "InvalidRules"

// GateMissing means that a Pod is not updated in place because the Pod lacks the readiness gate for updates: at the
// Pod's creation its owner recreated Pods for updates.
const GateMissing reason.Code = "GateMissing"

// Policy says how Pods are taken to another revision.
type Policy string

const (
	// Recreate deletes Pods, for their owner to make new ones. The empty Policy means the same.
	Recreate Policy = "Recreate"
	// InPlaceIfPossible updates Pods in place, and recreates a Pod if the change or the API server does not allow an
	// update in place.
	InPlaceIfPossible Policy = "InPlaceIfPossible"
	// InPlaceOnly never deletes a Pod for an update.
	InPlaceOnly Policy = "InPlaceOnly"
)

// Recreates reports whether the policy always recreates Pods.
func (p Policy) Recreates() bool { return p == Recreate || p == "" }

// Rules are an owner's wishes for its Pods. The zero value recreates Pods for updates and has no hooks.
type Rules struct {
	Hooks  lifecycle.Hooks
	Policy Policy
	// GracePeriod is a Pod's time out of service before its update in place, in whole seconds, rounded up.
	GracePeriod time.Duration
}

// RevisionLabels returns the labels of a Pod at a revision, also for inplaceupdate.Target. Without a name there are
// none.
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
// labels of the revision, the first state, and the labels and finalizers of hooks, see lifecycle.Machine.Stamp. The Pod
// lacks all keys that only the controller may write. An empty revisionName stands for Pods without revisions. Name or
// GenerateName are left to the caller. NewPod does not modify the template.
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

// StateOf returns the Pod's state in its lifecycle; empty for a Pod without a state.
func (c *Control) StateOf(pod *corev1.Pod) lifecycle.State {
	return c.config.Lifecycle.State(pod)
}

// IsUpdating reports whether an update of the Pod has begun and not ended. Without a state of its lifecycle, the gate
// tells.
func (c *Control) IsUpdating(pod *corev1.Pod) bool {
	if state := c.StateOf(pod); state != "" {
		return state == lifecycle.Updating
	}
	return !podstate.GateOpen(pod, c.config.InPlace.Gate())
}

// IsMarked reports whether the Pod's label asks for its deletion.
func (c *Control) IsMarked(pod *corev1.Pod) bool {
	_, ok := pod.Labels[c.config.DeleteLabel]
	return ok && c.config.DeleteLabel != ""
}

// RecreateMark is the value of Config.DeleteLabel on a Pod that waits for its hook to be recreated for an update.
const RecreateMark = "recreate"

// mark asks for a Pod's deletion, so nobody cancels the deletion. A user's mark stays, also one not seen yet.
func (c *Control) mark(pod *corev1.Pod) podpatch.Change {
	if c.config.DeleteLabel == "" || c.IsMarked(pod) {
		return podpatch.Change{}
	}
	value := RecreateMark
	return podpatch.Change{ResourceVersion: pod.ResourceVersion, Labels: map[string]*string{c.config.DeleteLabel: &value}}
}

// unmark removes the mark of an update.
func (c *Control) unmark(pod *corev1.Pod) podpatch.Change {
	if !c.isRecreated(pod) {
		return podpatch.Change{}
	}
	return podpatch.Change{ResourceVersion: pod.ResourceVersion, Labels: map[string]*string{c.config.DeleteLabel: nil}}
}

// isRecreated reports whether the mark of a Pod is that of an update.
func (c *Control) isRecreated(pod *corev1.Pod) bool {
	return c.config.DeleteLabel != "" && pod.Labels[c.config.DeleteLabel] == RecreateMark
}

// missingHash adds the label not written by older controllers.
func (c *Control) missingHash(pod *corev1.Pod) podpatch.Change {
	label := c.RevisionOf(pod)
	if c.config.HashLabel == "" || label == "" || pod.Labels[c.config.HashLabel] != "" {
		return podpatch.Change{}
	}
	hash := revision.ShortName(label)
	return podpatch.Change{Labels: map[string]*string{c.config.HashLabel: &hash}}
}
