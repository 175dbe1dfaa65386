package sidecarcontrol

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/reason"
)

// lostPatience limits how long after an upgrade with a lost state another image in the status counts. Afterwards the
// other image counts as a second name of the same image, because a kubelet ends a container within the grace period.
const lostPatience = 10 * time.Minute

// given are the records of a Pod about its sidecars, by set. The zero value reads them when a set needs them, once for
// all sets: a user with access to the Pod decides their length.
type given struct {
	read                  bool
	hashes, withoutImages records
}

// load reads the records. Unreadable ones are empty, and Control.Read reports why.
func (g *given) load(pod *corev1.Pod, keys *Keys) {
	if !g.read {
		g.hashes, _ = readRecords(pod.Annotations, keys.HashAnnotation)
		g.withoutImages, _ = readRecords(pod.Annotations, keys.HashWithoutImagesAnnotation)
		g.read = true
	}
}

// upgradedAt returns the time of a set's last upgrade of images, the zero time for none. Injection writes both records
// at once, an upgrade of images the first alone. Call load first.
func (g *given) upgradedAt(set string) time.Time {
	if len(g.hashes[set]) == 0 || len(g.withoutImages[set]) == 0 {
		return time.Time{}
	}
	if at := g.hashes.of(set).UpdateTimestamp; at.After(g.withoutImages.of(set).UpdateTimestamp.Time) {
		return at.Time
	}
	return time.Time{}
}

// lost returns the sidecars of a set that do not run their image, in a Pod whose upgrade has no state: somebody has
// removed the state. again is when the time alone may change the answer.
func (c *Control) lost(pod *corev1.Pod, set string, g *given, now time.Time) (waiting reason.List, again time.Duration) {
	g.load(pod, &c.keys)
	begun := g.upgradedAt(set)
	since := now.Sub(begun)
	if begun.IsZero() || since >= lostPatience || since < -time.Minute { // clocks differ by less
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
