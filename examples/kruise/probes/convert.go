// Package probes converts PodProbeMarkers and NodePodProbes to the types of package probing and back, for the
// controllers and for the node agent.
package probes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/node/probing"
)

// Entries returns the entries of a spec.
func Entries(spec *v1alpha1.NodePodProbeSpec) (entries []probing.Entry) {
	for i := range spec.PodProbes {
		p := &spec.PodProbes[i]
		e := probing.Entry{Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID), IP: p.IP}
		for j := range p.Probes {
			e.Probes = append(e.Probes, probing.Assigned{Name: p.Probes[j].Name, Container: p.Probes[j].ContainerName, Probe: p.Probes[j].Probe.Probe})
		}
		entries = append(entries, e)
	}
	return entries
}

// SpecOf returns the spec for entries.
func SpecOf(entries []probing.Entry) (spec v1alpha1.NodePodProbeSpec) {
	for i := range entries {
		e := &entries[i]
		p := v1alpha1.PodProbe{Namespace: e.Namespace, Name: e.Name, UID: string(e.UID), IP: e.IP}
		for j := range e.Probes {
			p.Probes = append(p.Probes, v1alpha1.ContainerProbe{
				Name: e.Probes[j].Name, ContainerName: e.Probes[j].Container, Probe: v1alpha1.ContainerProbeSpec{Probe: e.Probes[j].Probe},
			})
		}
		spec.PodProbes = append(spec.PodProbes, p)
	}
	return spec
}

// Reports returns the reports of a status.
func Reports(status *v1alpha1.NodePodProbeStatus) (reports []probing.Report) {
	for i := range status.PodProbeStatuses {
		s := &status.PodProbeStatuses[i]
		r := probing.Report{Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.UID)}
		for _, state := range s.ProbeStates {
			r.States = append(r.States, probing.ProbeState{
				Name: state.Name, State: probing.State(state.State), Message: state.Message,
				Probed: state.LastProbeTime.Time, Changed: state.LastTransitionTime.Time,
			})
		}
		reports = append(reports, r)
	}
	return reports
}

// StatusOf returns the status for reports.
func StatusOf(reports []probing.Report) (status v1alpha1.NodePodProbeStatus) {
	for _, r := range reports {
		s := v1alpha1.PodProbeStatus{Namespace: r.Namespace, Name: r.Name, UID: string(r.UID)}
		for _, state := range r.States {
			s.ProbeStates = append(s.ProbeStates, v1alpha1.ContainerProbeState{
				Name: state.Name, State: v1alpha1.ProbeState(state.State), Message: state.Message,
				LastProbeTime: metav1.NewTime(state.Probed), LastTransitionTime: metav1.NewTime(state.Changed),
			})
		}
		status.PodProbeStatuses = append(status.PodProbeStatuses, s)
	}
	return status
}
