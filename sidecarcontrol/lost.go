package sidecarcontrol

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// lost says which sidecars of a set do not run their image, in a Pod that was upgraded and that says nothing of the upgrade: somebody has removed
// its state.
func (c *Control) lost(pod *corev1.Pod, set string) (waiting reason.List) {
	if pod.Generation == 1 {
		return nil // nobody has changed it
	}
	recorded, err := readRecords(pod.Annotations, c.keys.HashAnnotation)
	if err != nil {
		return nil // Control.Read says so
	}
	of := recorded.of(set)
	if !of.UpdateTimestamp.After(pod.CreationTimestamp.Time) {
		return nil // it was created with them
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
