package sidecarcontrol

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// Rollout says in which order the Pods of a set are upgraded, and how many at a time.
type Rollout struct {
	// Selector selects the Pods to upgrade. Nil selects all.
	Selector labels.Selector
	// Partition is the number of waiting Pods to leave as is.
	Partition int
	// MaxUnavailable is the limit of the set's Pods out of service through upgrades. A Pod not in service anyway is
	// upgraded in any case, and counts until the Pod serves.
	MaxUnavailable int
	// Order of the Pods. The zero value upgrades the least serving Pods first.
	Order podorder.Update
	// PartitionPath and MaxUnavailablePath are the paths of Partition and MaxUnavailable, for the limits alone.
	PartitionPath, MaxUnavailablePath string
}

// Choice says what to do now with the Pods of a set.
type Choice struct {
	// Upgrade are the Pods to upgrade, in order.
	Upgrade []*Standing
	// Limits say why the remaining Pods are not upgraded: rollout.PartitionReached and rollout.UpdateLimited.
	Limits reason.List
}

// Choose returns the Pods of a set to upgrade now. pods are the Pods' standings with the set. Choose leaves out Pods
// without the set's sidecars. A Pod counts as out of service during any upgrade of its sidecars, by the set or by
// another set.
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
		case s.IsAway(): // counted already; a newer image may mend the Pod
		case !s.Ready:
			away++ // the Pod costs nothing, and counts from now on
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

// IsAway reports whether an upgrade takes, or may take, the Pod out of service. A Pod that can never be Ready again,
// because a container has ended for good, holds nobody up.
func (s *Standing) IsAway() bool {
	return s.Busy || len(s.Failing) > 0 || len(s.Waiting) > 0 || s.Updated && !s.Ready && !s.ended
}

func (c *Choice) limit(code reason.Code, path string, value, held int) {
	c.Limits = append(c.Limits, reason.Reason{Code: code, Path: path, New: strconv.Itoa(value), Detail: strconv.Itoa(held) + " Pods wait"})
}
