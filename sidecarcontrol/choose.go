package sidecarcontrol

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// Rollout says in which order, and how many at a time, the Pods of a set are upgraded.
type Rollout struct {
	// Selector selects the Pods that are upgraded; nil selects all.
	Selector labels.Selector
	// Partition is how many of the Pods that wait for their upgrade stay as they are.
	Partition int
	// MaxUnavailable is how many of the set's Pods may be out of service through upgrades. A Pod that does not serve anyway is upgraded
	// whatever it is, and counts until it serves.
	MaxUnavailable int
	// Order of the Pods. Its zero value upgrades first what serves least.
	Order podorder.Update
	// PartitionPath and MaxUnavailablePath are where these two are, for the limits alone.
	PartitionPath, MaxUnavailablePath string
}

// Choice is what to do with the Pods of a set now.
type Choice struct {
	// Upgrade are the Pods to upgrade, in order.
	Upgrade []*Standing
	// Limits say why others are not: rollout.PartitionReached and rollout.UpdateLimited.
	Limits reason.List
}

// Choose returns which Pods of a set are to be upgraded now. pods is how each stands with the set; those that it was not injected into
// are left out. A Pod counts as out of service while an upgrade of its sidecars goes on, of this set or of another.
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
	r.Order.Sort(waiting, all)
	var choice Choice
	if n := max(len(waiting)-max(r.Partition, 0), 0); n < len(waiting) {
		choice.limit(rollout.PartitionReached, r.PartitionPath, r.Partition, len(waiting)-n)
		waiting = waiting[:n]
	}
	for i, pod := range waiting {
		s := byPod[pod]
		switch {
		case s.IsAway(): // counted already; a newer image may mend it
		case !s.Ready:
			away++ // it costs nothing, and counts from now on
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

// wants reports whether a Pod is to be upgraded sooner or later.
func (r *Rollout) wants(s *Standing) bool {
	return !s.Updated && len(s.Blocked) == 0 && (r.Selector == nil || r.Selector.Matches(labels.Set(s.Pod.Labels)))
}

// IsAway reports whether the Pod is out of service, or may be, because of an upgrade. One that is not going to be Ready again, because a container
// has ended for good, holds nobody up.
func (s *Standing) IsAway() bool {
	return s.Busy || len(s.Failing) > 0 || len(s.Waiting) > 0 || s.Updated && !s.Ready && !s.ended
}

func (c *Choice) limit(code reason.Code, path string, value, held int) {
	c.Limits = append(c.Limits, reason.Reason{Code: code, Path: path, New: strconv.Itoa(value), Detail: strconv.Itoa(held) + " Pods wait"})
}
