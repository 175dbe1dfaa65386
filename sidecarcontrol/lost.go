package sidecarcontrol

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// lost names the sidecars of a set with another running image than in the spec, in a Pod upgraded before but without a
// state of the upgrade: somebody has removed the state.
func (c *Control) lost(pod *corev1.Pod, set string) (waiting reason.List) {
	if pod.Generation == 1 {
		return nil // nobody has changed the Pod
	}
	recorded, err := readRecords(pod.Annotations, c.keys.HashAnnotation)
	if err != nil {
		return nil // Control.Read says so
	}
	of := recorded.of(set)
	if !of.UpdateTimestamp.After(pod.CreationTimestamp.Time) {
		return nil // the Pod was created with the recorded sidecars
	}
	for _, name := range of.SidecarList {
		for _, container := range append([]string{name}, twinsOf(name)...) {
			if podstate.Container(pod, container) == nil {
				continue
			}
			waiting = append(waiting, reason.From(c.updater.LostImage(pod, container))...)
		}
	}
	return waiting
}
