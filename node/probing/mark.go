package probing

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the reasons of the conditions written by Mark. A user who may edit annotations of Pods, but not the
// status, could name any condition in a ledger. So Mark sets a condition named in the ledger to Unknown only if the
// present reason of the condition is one of these reasons.
const (
	ConditionSucceeded = "ProbeSucceeded"
	ConditionFailed    = "ProbeFailed"
	ConditionUnknown   = "ProbeUnknown"
	// ConditionGone is the reason of a condition whose probe does not exist any more.
	ConditionGone = "ProbeGone"
)

// conditionOf returns the condition for a state.
func conditionOf(t corev1.PodConditionType, s *ProbeState) corev1.PodCondition {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, Reason: ConditionFailed, Message: cut(s.Message)}
	switch s.State {
	case Succeeded:
		c.Status, c.Reason = corev1.ConditionTrue, ConditionSucceeded
	case Unknown:
		c.Reason = ConditionUnknown
	case Failed:
	}
	return c
}

func isOurs(c *corev1.PodCondition) bool {
	return c != nil && (c.Reason == ConditionSucceeded || c.Reason == ConditionFailed || c.Reason == ConditionUnknown)
}

// Mark returns the change that gives a Pod the marks for the states of its probes. states are results of Accept or
// External. Package podpatch omits values that the Pod already has from the request.
//
// For a probe with a state, the condition is True for Succeeded, False otherwise, with the message of the state. The
// labels and annotations for the state are set. The labels and annotations for the probe's other states are removed,
// whatever their value, unless another probe sets the same keys. The marks of a probe without a state stay as they
// are, because the Node may be unreachable. Marks of a probe that cannot be run in the Pod are removed, because no
// state will ever follow.
//
// Mark removes marks in the Pod's ledger that no probe sets any more: labels and annotations are removed if the Pod
// still has the value in the ledger, and a condition becomes Unknown. A Pod that has ended, or that is being deleted,
// is not changed.
func (b *Book) Mark(pod *corev1.Pod, states []ProbeState) (podpatch.Change, reason.List) {
	change := podpatch.Change{UID: pod.UID}
	if !podstate.IsActive(pod) {
		return change, nil
	}
	m := newMarking(pod)
	ledger, err := b.ledgerOf(pod)
	if err != nil {
		m.why = append(m.why, reason.Reason{
			Code: UnreadableLedger, Object: reason.ObjectOf("Pod", pod), Path: "metadata.annotations[" + b.annotations.Ledger + "]",
			Detail: "the annotation is not the JSON of a ledger", Remedy: "remove marks of former probes by hand",
		})
	}
	byName := map[string]*ProbeState{}
	for i := range states {
		if s := &states[i]; byName[s.Name] == nil && s.State.isValid() {
			byName[s.Name] = s
		}
	}
	for _, marker := range b.Of(pod) {
		for i := range marker.Probes {
			p := &marker.Probes[i]
			container := podstate.Container(pod, p.Container)
			if container == nil {
				continue
			}
			name := joinName(marker.Name, p.Name)
			if s := byName[name]; s != nil {
				m.apply(name, p, s)
			} else if held, ok := ledger[name]; ok && isUsable(p, container) {
				m.keep(name, held)
			}
		}
	}
	m.takeBack(ledger)
	change.Labels, change.Annotations, change.Conditions = m.labels.change(), m.annotations.change(), m.conditions
	b.writeLedger(pod, &change, m.ledger)
	return change, m.why
}

// isUsable reports whether a probe can be run in a container.
func isUsable(p *Probe, container *corev1.Container) bool {
	_, err := Resolve(&p.Probe, container)
	return err == nil
}

// writeLedger adds the ledger to the change, unless the Pod has the same ledger.
func (b *Book) writeLedger(pod *corev1.Pod, change *podpatch.Change, ledger ledgerJSON) {
	have, exists := pod.Annotations[b.annotations.Ledger]
	want := ledger.encode()
	if want == have && (want != "" || !exists) {
		return
	}
	if change.Annotations == nil {
		change.Annotations = map[string]*string{}
	}
	if change.Annotations[b.annotations.Ledger] = nil; want != "" {
		change.Annotations[b.annotations.Ledger] = &want
	}
}

// marking collects the changes of a Pod's marks.
type marking struct {
	pod                 *corev1.Pod
	labels, annotations *keys
	conditions          []corev1.PodCondition
	types               map[corev1.PodConditionType]string // by type: the probe that owns the condition
	ledger              ledgerJSON
	why                 reason.List
}

func newMarking(pod *corev1.Pod) *marking {
	return &marking{
		pod: pod, labels: newKeys(pod.Labels), annotations: newKeys(pod.Annotations),
		types: map[corev1.PodConditionType]string{}, ledger: ledgerJSON{},
	}
}

// apply sets the marks of a probe with a state.
func (m *marking) apply(name string, p *Probe, s *ProbeState) {
	var held heldMarks
	if m.owns(name, p.Condition) {
		m.conditions = append(m.conditions, conditionOf(p.Condition, s))
		held.Condition = p.Condition
	}
	for _, marks := range p.Marks {
		if marks.State == s.State {
			held.Labels = m.set(name, "metadata.labels", m.labels, marks.Labels, held.Labels)
			held.Annotations = m.set(name, "metadata.annotations", m.annotations, marks.Annotations, held.Annotations)
			continue
		}
		m.labels.remove(marks.Labels)
		m.annotations.remove(marks.Annotations)
	}
	if !held.isZero() {
		m.ledger[name] = held
	}
}

// owns reports whether a probe may write the condition. The first probe for which owns is called becomes the owner.
func (m *marking) owns(name string, t corev1.PodConditionType) bool {
	if t == "" {
		return false
	}
	if owner, taken := m.types[t]; taken {
		m.taken(name, "status.conditions["+string(t)+"]", owner)
		return false
	}
	m.types[t] = name
	return true
}

// set plans the values of a probe, except keys for which an earlier probe sets another value. The result is the
// probe's part of the new ledger.
func (m *marking) set(name, path string, into *keys, values, held map[string]string) map[string]string {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if owner, ok := into.set(name, key, values[key]); !ok {
			m.taken(name, path+"["+key+"]", owner)
			continue
		}
		if held == nil {
			held = map[string]string{}
		}
		held[key] = values[key]
	}
	return held
}

func (m *marking) taken(name, path, owner string) {
	m.why = append(m.why, reason.Reason{
		Code: MarkTaken, Object: reason.ObjectOf("Pod", m.pod), Path: path, Old: owner, New: name,
		Detail: "an earlier probe sets another value", Remedy: "let a single probe set the value",
	})
}

// keep leaves the marks of a probe without state as they are.
func (m *marking) keep(name string, held heldMarks) {
	if _, taken := m.types[held.Condition]; held.Condition != "" && taken {
		held.Condition = ""
	} else if held.Condition != "" {
		m.types[held.Condition] = name
	}
	held.Labels, held.Annotations = m.labels.keep(name, held.Labels), m.annotations.keep(name, held.Annotations)
	if !held.isZero() {
		m.ledger[name] = held
	}
}

// takeBack removes the marks in the former ledger that no probe sets any more.
func (m *marking) takeBack(former ledgerJSON) {
	for _, name := range slices.Sorted(maps.Keys(former)) {
		held := former[name]
		m.labels.takeBack(held.Labels)
		m.annotations.takeBack(held.Annotations)
		t := held.Condition
		if _, owned := m.types[t]; t == "" || owned || isReserved(t) || !isOurs(podstate.Condition(m.pod, t)) {
			continue
		}
		m.types[t] = name
		m.conditions = append(m.conditions, corev1.PodCondition{
			Type: t, Status: corev1.ConditionUnknown, Reason: ConditionGone, Message: "the probe of the condition has gone",
		})
	}
}
