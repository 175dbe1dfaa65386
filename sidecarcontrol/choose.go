package sidecarcontrol

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// Rollout says in which order the Pods of a set are upgraded, and how many at a time.
type Rollout struct {
	// Selector selects the Pods to upgrade. Nil selects all Pods of the set.
	Selector labels.Selector
	// Partition is the number of outdated Pods that keep their old sidecars.
	Partition int
	// MaxUnavailable is the largest number of the set's Pods that may be out of service because of upgrades. A Pod
	// that is out of service already is upgraded even if MaxUnavailable is reached, and counts towards MaxUnavailable
	// until the Pod is in service.
	MaxUnavailable int
	// Order is the order in which Pods are upgraded. With the zero value, Pods that are not in service come first.
	Order podorder.Update
	// PartitionPath and MaxUnavailablePath are the field paths of Partition and MaxUnavailable, used only in Limits.
	PartitionPath, MaxUnavailablePath string
}

// Choice says which Pods of a set to upgrade now.
type Choice struct {
	// Upgrade are the Pods to upgrade, in order.
	Upgrade []*Standing
	// Limits say why other Pods are not upgraded now: rollout.PartitionReached and rollout.UpdateLimited.
	Limits reason.List
}

// Choose returns the Pods of a set to upgrade now. pods are the results of Control.Read for the set and each Pod.
// Choose leaves out Pods without the set's sidecars. A Pod counts as out of service during any upgrade of its sidecars,
// by this set or by another set.
func Choose(pods []Standing, r Rollout) Choice {
	byPod := map[*corev1.Pod]*Standing{}
	var all, waiting []*corev1.Pod
	away := 0
	for i := range pods {
		s := &pods[i]
		if !s.Injected {
			continue
		}
		all = append(all, s.Pod)
		byPod[s.Pod] = s
		if s.IsAway() {
			away++
		}
		if r.wants(s) {
			waiting = append(waiting, s.Pod)
		}
	}
	// Caches return Pods in any order, and the same Pods must lead to the same choice in each reconcile.
	slices.SortFunc(waiting, byName)
	slices.SortFunc(all, byName)
	r.Order.Sort(waiting, all)
	var choice Choice
	if n := max(len(waiting)-max(r.Partition, 0), 0); n < len(waiting) {
		choice.limit(rollout.PartitionReached, r.PartitionPath, r.Partition, len(waiting)-n)
		waiting = waiting[:n]
	}
	for i, pod := range waiting {
		s := byPod[pod]
		switch {
		case s.IsAway(): // counted above; a newer image may repair the Pod
		case !s.Ready:
			away++ // the upgrade takes this Pod out of service, so the Pod counts towards MaxUnavailable
		case away >= r.MaxUnavailable:
			choice.limit(rollout.UpdateLimited, r.MaxUnavailablePath, r.MaxUnavailable, len(waiting)-i)
			return choice
		default:
			away++
		}
		choice.Upgrade = append(choice.Upgrade, s)
	}
	return choice
}

// wants reports whether a Pod must be upgraded, now or later.
func (r *Rollout) wants(s *Standing) bool {
	return !s.Updated && len(s.Blocked) == 0 && (r.Selector == nil || r.Selector.Matches(labels.Set(s.Pod.Labels)))
}

// IsAway reports whether the Pod is, or may be, out of service because of an upgrade. A Pod that can never be Ready
// again, because a container has ended for good, does not count.
func (s *Standing) IsAway() bool {
	return s.Busy || len(s.Failing) > 0 || len(s.Waiting) > 0 || s.Updated && !s.Ready && !s.ended
}

func (c *Choice) limit(code reason.Code, path string, value, held int) {
	c.Limits = append(c.Limits, reason.Reason{Code: code, Path: path, New: strconv.Itoa(value), Detail: strconv.Itoa(held) + " Pods wait"})
}

func byName(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
