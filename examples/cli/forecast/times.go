package forecast

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// Times are measured times; nil means unknown.
type Times struct {
	// Restart is the time from the end of a container to the readiness of its Pod with the next instance.
	Restart *time.Duration
	// Create is the time from the creation of a Pod to its readiness.
	Create *time.Duration
}

// Measure returns the medians of the times in the statuses of Pods. A ready Pod without restarts gives a time for
// Create. A ready Pod with restarts gives a time for Restart, if the Pod became ready after the end of the last
// instance.
func Measure(pods []*corev1.Pod) Times {
	var restarts, creations []time.Duration
	for _, pod := range pods {
		if !podstate.IsReady(pod) {
			continue
		}
		ready := podstate.ReadySince(pod).Time
		ended, restarted := lastEnd(pod)
		switch {
		case !restarted:
			if took := ready.Sub(pod.CreationTimestamp.Time); took >= 0 && !pod.CreationTimestamp.IsZero() {
				creations = append(creations, took)
			}
		case !ended.IsZero() && !ready.Before(ended):
			restarts = append(restarts, ready.Sub(ended))
		}
	}
	return Times{Restart: median(restarts), Create: median(creations)}
}

// lastEnd returns the latest end of a container instance, and whether any container was restarted.
func lastEnd(pod *corev1.Pod) (ended time.Time, restarted bool) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		restarted = restarted || s.RestartCount > 0
		if last := s.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(ended) {
			ended = last.FinishedAt.Time
		}
	}
	return ended, restarted
}

func median(all []time.Duration) *time.Duration {
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return &all[len(all)/2]
}
