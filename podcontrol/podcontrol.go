package podcontrol

import (
	"errors"
	"fmt"
	"maps"
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

// Config says under which names a controller keeps what it knows on its Pods. Only InPlace and RevisionLabel are required. The
// labels must be among inplaceupdate.Keys.Reserved, so that no template changes them.
type Config struct {
	// InPlace updates Pods in place. New Pods get its readiness gate.
	InPlace *inplaceupdate.Updater
	// RevisionLabel holds the name of a Pod's revision without that of its owner, so that it fits a label.
	RevisionLabel string
	// FullRevisions has RevisionLabel hold the whole name, as OpenKruise does. A label has 63 characters at most: the API server refuses
	// the Pods of owners whose names are longer than about 52.
	FullRevisions bool
	// HashLabel holds the name without that of its owner, too; empty for none.
	HashLabel string
	// DeleteLabel is the label by which a user, or Update, asks for a Pod's deletion; empty for none. Its value does not matter.
	DeleteLabel string
	// Lifecycle decides about the states of a Pod's hooks. The zero Machine is for owners without hooks: Pods have no state then.
	Lifecycle lifecycle.Machine
	// HookGate is the readiness gate that hooks close which take a Pod out of service, and Holder says who holds it then. Both or
	// none are needed.
	HookGate corev1.PodConditionType
	Holder   func(lifecycle.Kind) podreadiness.Holder
	// CountUnscheduled lets new Pods count as normal before they have a node.
	CountUnscheduled bool
}

// Control decides about single Pods. It is safe for concurrent use. Make it with New.
type Control struct{ config Config }

// New returns a Control. The error says what of the config is missing.
func New(config Config) (*Control, error) {
	switch {
	case config.InPlace == nil:
		return nil, errors.New("podcontrol: Config.InPlace is required")
	case config.RevisionLabel == "":
		return nil, errors.New("podcontrol: Config.RevisionLabel is required")
	case (config.HookGate == "") != (config.Holder == nil):
		return nil, errors.New("podcontrol: Config.HookGate and Config.Holder need each other")
	case config.HookGate != "" && config.HookGate == config.InPlace.Gate():
		return nil, fmt.Errorf("podcontrol: Config.HookGate must be another gate than %q, which has one writer", config.HookGate)
	case config.HashLabel == config.RevisionLabel:
		return nil, fmt.Errorf("podcontrol: Config.HashLabel must be another label than Config.RevisionLabel, %q", config.RevisionLabel)
	}
	for _, label := range []string{config.RevisionLabel, config.HashLabel, config.DeleteLabel} {
		if label != "" && !isReserved(config.InPlace, label) {
			return nil, fmt.Errorf("podcontrol: label %q must be among the Reserved keys of Config.InPlace, or templates could set it", label)
		}
	}
	return &Control{config: config}, nil
}

func isReserved(updater *inplaceupdate.Updater, label string) bool {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: ""}}}
	return len(updater.ValidateTemplate(template)) > 0
}

// InvalidPolicy means that rules have a policy that is none of the three. Pods are not updated then.
const InvalidPolicy reason.Code = "InvalidPolicy"

// Policy says how Pods are taken to another revision.
type Policy string

const (
	// Recreate deletes Pods, for their owner to make new ones. The empty Policy means the same.
	Recreate Policy = "Recreate"
	// InPlaceIfPossible updates Pods in place, and recreates those where the change or the API server does not allow that.
	InPlaceIfPossible Policy = "InPlaceIfPossible"
	// InPlaceOnly never deletes a Pod for an update.
	InPlaceOnly Policy = "InPlaceOnly"
)

// Recreates reports whether the policy always recreates Pods.
func (p Policy) Recreates() bool { return p == Recreate || p == "" }

// Rules are what an owner wants for its Pods. The zero value recreates Pods for updates and has no hooks.
type Rules struct {
	Hooks  lifecycle.Hooks
	Policy Policy
	// GracePeriod is how long a Pod is out of service before it is updated in place, in whole seconds, rounded up.
	GracePeriod time.Duration
}

// RevisionLabels returns the labels of a Pod at a revision, which inplaceupdate.Target takes too.
func (c *Control) RevisionLabels(name string) map[string]string {
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

// NewPod returns a Pod of a revision for its owner, from the template that the revision is of: with the readiness gate, the
// labels of the revision, the first state and what a hook that is BeforeOnly holds Pods by, and without what only the controller
// may write. Name or GenerateName are left to the caller. The template is not modified.
func (c *Control) NewPod(
	template *corev1.PodTemplateSpec, namespace string, owner metav1.OwnerReference, rules Rules, revisionName string, now time.Time,
) *corev1.Pod {
	var gates []corev1.PodConditionType
	if gate := c.config.InPlace.Gate(); gate != "" {
		gates = append(gates, gate)
	}
	pod := podstate.FromTemplate(template, namespace, owner, gates...)
	c.config.InPlace.StripReserved(&pod.ObjectMeta)
	maps.Copy(pod.Labels, c.RevisionLabels(revisionName))
	c.machine(rules).Stamp(&pod.ObjectMeta, lifecycle.PreparingNormal, now)
	return pod
}

// RevisionOf returns what the Pod's revision label says.
func (c *Control) RevisionOf(pod *corev1.Pod) string { return pod.Labels[c.config.RevisionLabel] }

// StateOf returns where the Pod is in its lifecycle; empty for a Pod without a state.
func (c *Control) StateOf(pod *corev1.Pod) lifecycle.State {
	return c.config.Lifecycle.State(pod)
}

// IsUpdating reports whether an update of the Pod has begun and not ended. Without a state of its lifecycle, the gate tells.
func (c *Control) IsUpdating(pod *corev1.Pod) bool {
	if state := c.StateOf(pod); state != "" {
		return state == lifecycle.Updating
	}
	return !podstate.GateOpen(pod, c.config.InPlace.Gate())
}

// IsMarked reports whether somebody has asked for the Pod's deletion by its label.
func (c *Control) IsMarked(pod *corev1.Pod) bool {
	_, ok := pod.Labels[c.config.DeleteLabel]
	return ok && c.config.DeleteLabel != ""
}

// mark asks for a Pod's deletion, so that nobody takes it for one to cancel.
func (c *Control) mark() podpatch.Change {
	if c.config.DeleteLabel == "" {
		return podpatch.Change{}
	}
	value := "true"
	return podpatch.Change{Labels: map[string]*string{c.config.DeleteLabel: &value}}
}

// missingHash adds the label that older controllers did not write.
func (c *Control) missingHash(pod *corev1.Pod) podpatch.Change {
	label := c.RevisionOf(pod)
	if c.config.HashLabel == "" || label == "" || pod.Labels[c.config.HashLabel] != "" {
		return podpatch.Change{}
	}
	hash := revision.ShortName(label)
	return podpatch.Change{Labels: map[string]*string{c.config.HashLabel: &hash}}
}
