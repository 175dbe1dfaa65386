package sidecarcontrol

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/reason"
)

// lostPatience is the time after an upgrade until which a different image in the container status counts as the old
// image, if the state of the upgrade was lost. Afterwards the reported image counts as another name of the new image,
// because a kubelet stops a container within the grace period.
const lostPatience = 10 * time.Minute

// given holds the decoded annotations in which a Pod records its sidecars, by set. The annotations are decoded only
// when a set needs them, and once for all sets, because a user may make them long.
type given struct {
	read                  bool
	hashes, withoutImages records
}

// load decodes the annotations. Annotations that cannot be parsed count as empty, and Control.Read reports why.
func (g *given) load(pod *corev1.Pod, keys *Keys) {
	if !g.read {
		g.hashes, _ = readRecords(pod.Annotations, keys.HashAnnotation)
		g.withoutImages, _ = readRecords(pod.Annotations, keys.HashWithoutImagesAnnotation)
		g.read = true
	}
}

// upgradedAt returns when a set last upgraded images, or the zero time if never. An injection writes both hash
// annotations, and an upgrade of images writes only HashAnnotation. Call load first.
func (g *given) upgradedAt(set string) time.Time {
	if len(g.hashes[set]) == 0 || len(g.withoutImages[set]) == 0 {
		return time.Time{}
	}
	if at := g.hashes.of(set).UpdateTimestamp; at.After(g.withoutImages.of(set).UpdateTimestamp.Time) {
		return at.Time
	}
	return time.Time{}
}

// lost returns the sidecars of a set that do not run their image, in a Pod whose upgrade state somebody has removed.
// The duration again is the time after which the result may change although no event occurs.
func (c *Control) lost(pod *corev1.Pod, set string, g *given, now time.Time) (waiting reason.List, again time.Duration) {
	g.load(pod, &c.keys)
	begun := g.upgradedAt(set)
	since := now.Sub(begun)
	if begun.IsZero() || since >= lostPatience || since < -time.Minute { // two clocks may differ by up to a minute
		return nil, 0
	}
	names := sets.New[string]()
	for _, name := range g.hashes.of(set).SidecarList {
		names.Insert(name).Insert(twinsOf(name)...)
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if names.Has(list[i].Name) {
				waiting = append(waiting, reason.From(c.updater.LostImage(pod, list[i].Name))...)
			}
		}
	}
	if len(waiting) == 0 {
		return nil, 0
	}
	return waiting, lostPatience - since
}
