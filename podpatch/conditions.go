package podpatch

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// ReadinessGatesNotReady is the reason that the kubelet writes in a Pod's Ready condition if all containers are ready
// and a readiness gate is not.
const ReadinessGatesNotReady = "ReadinessGatesNotReady"

// Ready computes the Pod's Ready condition as the kubelet does once the given conditions are set: status, reason and
// message agree byte for byte. The kubelet compares exactly these three fields with its own result, and so finds no
// difference to write. known is false while the containers are not ready: the Pod's Ready condition is then False
// already, whatever the conditions of the gates are.
func Ready(pod *corev1.Pod, conditions []corev1.PodCondition) (ready corev1.PodCondition, known bool) {
	if !podstate.IsTrue(pod, corev1.ContainersReady) {
		return corev1.PodCondition{}, false
	}
	var closed []string
	for i := range pod.Spec.ReadinessGates {
		gate := pod.Spec.ReadinessGates[i].ConditionType
		c := overlaid(pod, conditions, gate)
		switch {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate)))
		case c.Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate), c.Status))
		}
	}
	ready = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	if len(closed) > 0 {
		ready.Status = corev1.ConditionFalse
		ready.Reason = ReadinessGatesNotReady
		ready.Message = strings.Join(closed, ", ")
	}
	return ready, true
}

func overlaid(pod *corev1.Pod, conditions []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	if i := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == t }); i >= 0 {
		return &conditions[i]
	}
	return podstate.Condition(pod, t)
}

// changedConditions returns the conditions to send: conditions that differ or are forced, and the Ready condition if a
// changed gate makes the Pod unready.
func (m *merge) changedConditions() []conditionBody {
	if len(m.conditions) == 0 {
		return nil
	}
	var out []conditionBody
	gate, force := false, false
	for i := range m.conditions {
		want := &m.conditions[i]
		have := podstate.Condition(m.pod, want.Type)
		forced := slices.Contains(m.forced, want.Type)
		if !forced && have != nil && sameCondition(have, want) {
			continue
		}
		if podstate.HasGate(m.pod, want.Type) {
			gate, force = true, force || forced
		}
		out = append(out, newConditionBody(have, want, m.now))
	}
	if !gate {
		return out
	}
	// The patch that closes a gate also sets Ready to False, so traffic ends with the same write. Only the kubelet
	// sets Ready to True again. The kubelet compares its newly computed Ready condition with its last computed Ready
	// condition. If another client wrote True, the kubelet could find both equal, and would write its old False with
	// the next status update.
	if ready, known := Ready(m.pod, m.conditions); known && ready.Status != corev1.ConditionTrue {
		have := podstate.Condition(m.pod, corev1.PodReady)
		if force || have == nil || have.Status == corev1.ConditionTrue {
			out = append(out, newConditionBody(have, &ready, m.now))
		}
	}
	return out
}

func sameCondition(a, b *corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

func describe(c *corev1.PodCondition) string {
	return strings.Join(strings.Fields(string(c.Status)+" "+c.Reason+" "+reason.Shorten(c.Message, 80)), " ")
}
