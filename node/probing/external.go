package probing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// External returns states for a Pod whose conditions the agent writes directly, as on virtual Nodes: Succeeded for
// True, Failed for False, Unknown for any other status. A probe without Probe.Condition, or with a condition that the
// Pod lacks, has no state. Pass the states to Mark of a Book from WithoutConditions, so that Mark does not write the
// agent's conditions.
func (b *Book) External(pod *corev1.Pod) (states []ProbeState) {
	for _, m := range b.Of(pod) {
		for i := range m.Probes {
			p := &m.Probes[i]
			if p.Condition == "" {
				continue
			}
			c := podstate.Condition(pod, p.Condition)
			if c == nil {
				continue
			}
			s := ProbeState{
				Name: joinName(m.Name, p.Name), State: Unknown, Message: c.Message,
				Probed: c.LastProbeTime.Time, Changed: c.LastTransitionTime.Time,
			}
			switch c.Status {
			case corev1.ConditionTrue:
				s.State = Succeeded
			case corev1.ConditionFalse:
				s.State = Failed
			case corev1.ConditionUnknown:
			}
			states = append(states, s)
		}
	}
	return states
}

// WithoutConditions returns a Book with the same Markers, whose probes write no condition.
func (b *Book) WithoutConditions() *Book {
	out := &Book{annotations: b.annotations, markers: map[string][]Marker{}}
	for namespace, markers := range b.markers {
		for _, m := range markers {
			m.Probes = slices.Clone(m.Probes)
			for i := range m.Probes {
				m.Probes[i].Condition = ""
			}
			out.markers[namespace] = append(out.markers[namespace], m)
		}
	}
	return out
}
