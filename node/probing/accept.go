package probing

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

// mostRefusals is the largest number of reasons that Accept returns about the reports of a Node.
const mostRefusals = 20

// Accept returns the states that can be trusted, by Pod. A state is accepted if the pair of Pod and probe is in the
// Node's spec, and if the Pod with the same UID, namespace and name is on the Node. All other content of the reports
// is ignored, because the author of the reports may be a compromised Node. Messages are cut to 1024 bytes of valid
// UTF-8. refused has at most 20 reasons, followed by a reason with the number of further refusals. pods may contain
// Pods of other Nodes.
func Accept(node string, entries []Entry, reports []Report, pods []*corev1.Pod) (states map[types.UID][]ProbeState, refused reason.List) {
	a := &accepting{states: map[types.UID][]ProbeState{}, asked: map[Slot]bool{}, seen: map[Slot]bool{}}
	here := map[types.UID]*corev1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName == node && node != "" {
			here[pod.UID] = pod
		}
	}
	for _, e := range entries {
		for _, p := range e.Probes {
			a.asked[Slot{Pod: e.UID, Probe: p.Name}] = true
		}
	}
	for _, r := range reports {
		pod := here[r.UID]
		if pod == nil || pod.Namespace != r.Namespace || pod.Name != r.Name {
			a.refuse(StateNotAsked, &r, "", "the Node has no such Pod")
			continue
		}
		for i := range r.States {
			a.add(&r, &r.States[i])
		}
	}
	if a.more > 0 {
		a.refused = append(a.refused, reason.Reason{Code: StateNotAsked, Path: "status", Detail: fmt.Sprintf("%d more reports are refused", a.more)})
	}
	return a.states, a.refused
}

type accepting struct {
	states      map[types.UID][]ProbeState
	asked, seen map[Slot]bool
	refused     reason.List
	more        int
}

func (a *accepting) add(r *Report, s *ProbeState) {
	slot := Slot{Pod: r.UID, Probe: s.Name}
	switch {
	case !a.asked[slot]:
		a.refuse(StateNotAsked, r, s.Name, "the spec of the Node has no such probe")
	case !s.State.isValid():
		a.refuse(InvalidState, r, s.Name, "the state is unknown")
	case a.seen[slot]:
		a.refuse(InvalidState, r, s.Name, "the probe has two states")
	default:
		a.seen[slot] = true
		state := *s
		state.Message = cut(s.Message)
		a.states[r.UID] = append(a.states[r.UID], state)
	}
}

// refuse records a reason. Text from a Node is shortened and quoted.
func (a *accepting) refuse(code reason.Code, r *Report, probe, detail string) {
	if len(a.refused) >= mostRefusals {
		a.more++
		return
	}
	short := func(s string) string { return reason.Shorten(s, 63) }
	why := reason.Reason{Code: code, Object: objectOf(short(r.Namespace), short(r.Name), types.UID(short(string(r.UID)))), Path: "status", Detail: detail}
	if probe != "" {
		why.New = fmt.Sprintf("%q", short(probe))
	}
	a.refused = append(a.refused, why)
}
