package sidecarcontrol

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// lostPatience limits how long after an upgrade with a lost state another image in the status counts. Afterwards the
// other image counts as a second name of the same image, because a kubelet ends a container within the grace period.
const lostPatience = 10 * time.Minute

// lost returns the sidecars of a set not running their image, in a Pod whose upgrade has no state because somebody has
// removed the state. After again, the answer may change without an event.
func (c *Control) lost(pod *corev1.Pod, set string, now time.Time) (waiting reason.List, again time.Duration) {
	hashes, err := readRecords(pod.Annotations, c.keys.HashAnnotation)
	if err != nil {
		return nil, 0 //nolint:nilerr // Control.Read reports the error.
	}
	withoutImages, err := readRecords(pod.Annotations, c.keys.HashWithoutImagesAnnotation)
	if err != nil {
		return nil, 0 //nolint:nilerr // As above.
	}
	given := hashes.of(set)
	// Injection writes both records at once, an upgrade of images the first alone.
	again = given.UpdateTimestamp.Add(lostPatience).Sub(now)
	if !given.UpdateTimestamp.After(withoutImages.of(set).UpdateTimestamp.Time) || again <= 0 {
		return nil, 0
	}
	for _, name := range given.SidecarList {
		for _, container := range append([]string{name}, twinsOf(name)...) {
			if podstate.Container(pod, container) != nil {
				waiting = append(waiting, reason.From(c.updater.LostImage(pod, container))...)
			}
		}
	}
	if len(waiting) == 0 {
		again = 0
	}
	return waiting, again
}
