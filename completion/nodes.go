package completion

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Reasons for which a Pod must not stay where it is.
const (
	// NodeUnfit means that a Pod's Node does not fit any more: its labels, taints or size have changed, or it was cordoned.
	NodeUnfit reason.Code = "NodeUnfit"
	// NodeGone means that a Pod's Node is not there any more.
	NodeGone reason.Code = "NodeGone"
)

// Standing is what a Pod means to its job.
type Standing uint8

const (
	// Leaving is a Pod that is being deleted: whoever deletes a Pod ends it, which is neither a success nor a failure. So is one that the
	// garbage collector of Pods has marked as failed and is about to delete, because its Node is gone.
	Leaving Standing = iota
	// Active has not ended.
	Active
	// Succeeded has ended well.
	Succeeded
	// Broken has ended otherwise: its containers have failed, or the kubelet or the scheduler has ended it (condition DisruptionTarget says which).
	Broken
	// Looping counts as broken, and restarts its containers again and again.
	Looping
)

// StandingOf says what a Pod means to its job. One whose restartPolicy is not Never loops when all its containers together, init containers included,
// were restarted more often than restartLimit says; with Always, which the API server fills in, a Pod never succeeds: refuse it for jobs.
func StandingOf(pod *corev1.Pod, restartLimit int32) Standing {
	switch {
	case pod.DeletionTimestamp != nil || isCollected(pod):
		return Leaving
	case pod.Status.Phase == corev1.PodSucceeded:
		return Succeeded
	case pod.Status.Phase == corev1.PodFailed:
		return Broken
	case pod.Spec.RestartPolicy != corev1.RestartPolicyNever && restarts(pod) > int64(restartLimit):
		return Looping
	}
	return Active
}

// isCollected reports whether the garbage collector of Pods has ended a Pod. See pkg/controller/podgc/gc_controller.go of Kubernetes, which deletes it in
// the next call.
func isCollected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC"
	})
}

// restarts counts those of all containers together.
func restarts(pod *corev1.Pod) (sum int64) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			sum += int64(statuses[i].RestartCount)
		}
	}
	return sum
}

// Claim is what a job has to do with a Node.
type Claim struct {
	// Fits says that a new Pod may run there.
	Fits bool
	// Keeps says that a Pod stays that is bound to the Node already. See nodefit.HealthTolerations.
	Keeps bool
}

// Unfinished is a Pod that has not ended and is not being deleted.
type Unfinished struct {
	*corev1.Pod

	// Active says that it has not failed.
	Active bool
	// Why says why it must not stay where it is; empty if it may.
	Why reason.Code
}

// Survey is what there is of a job that has one Pod on each Node. Lists are sorted by name.
type Survey struct {
	// Wanted is how many Nodes are to have a Pod, or have had one, and Done how many of these have no more to do.
	Wanted, Done int
	// Missing are the Nodes that lack a Pod. For each active Pod that is pinned to no Node there is one less: it may be about to run there.
	Missing []string
	// Active, Succeeded and Failed are numbers of Pods.
	Active, Succeeded, Failed int
	// Running have not ended, and Misplaced are those of them that must not stay where they are.
	Running, Misplaced []Unfinished
	// Duplicates are Nodes with more than one Pod.
	Duplicates []string

	unpinned int // active Pods that are pinned to no Node
}

// OnNodes counts the Pods of a job that has one on each Node that fits. claims has all Nodes there are, by name. A Pod that waits for a Node is on
// the one that it is pinned to (nodefit.NodeOf): pin new ones with nodefit.Requirements.Place. What is done stays done as long as its Pod is there,
// also where the Node has become unfit since. A Node whose Pod is deleted by somebody is to be done again: where that must not be, remember in the
// job's status which are done, and leave them out of claims' Fits. It is pure.
func OnNodes(pods []*corev1.Pod, claims map[string]Claim, restartLimit int32) *Survey {
	s, places := &Survey{}, make(map[string]*place, len(pods))
	for _, pod := range pods {
		s.add(pod, StandingOf(pod, restartLimit), places, claims)
	}
	for name, claim := range claims {
		at := places[name]
		switch {
		case at == nil && claim.Fits:
			s.Wanted++
			s.Missing = append(s.Missing, name)
		case at != nil && (claim.Fits || at.kept > 0 || at.ended > 0):
			s.Wanted++
			if at.ended > 0 && at.active == 0 {
				s.Done++
			}
		}
	}
	for name, at := range places {
		if at.pods > 1 {
			s.Duplicates = append(s.Duplicates, name)
		}
	}
	slices.Sort(s.Missing)
	s.Missing = s.Missing[:max(len(s.Missing)-s.unpinned, 0)]
	slices.Sort(s.Duplicates)
	byName := func(a, b Unfinished) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) }
	slices.SortFunc(s.Running, byName)
	slices.SortFunc(s.Misplaced, byName)
	return s
}

// place is what is on one Node. kept are active Pods that stay.
type place struct{ pods, active, kept, ended int }

// add counts a Pod.
func (s *Survey) add(pod *corev1.Pod, is Standing, places map[string]*place, claims map[string]Claim) {
	at := &place{} // of a Pod that is on no Node, and pinned to none
	node, err := nodefit.NodeOf(pod)
	if err == nil {
		if places[node] == nil {
			places[node] = at
		}
		at = places[node]
	}
	at.pods++
	switch is {
	case Leaving:
		return
	case Active:
		s.Active++
		at.active++
		if err != nil {
			s.unpinned++
		}
	case Succeeded:
		s.Succeeded++
		at.ended++
	case Broken, Looping:
		s.Failed++
		at.ended++
	}
	if podstate.HasEnded(pod) {
		return
	}
	one := Unfinished{Pod: pod, Active: is == Active}
	switch claim, exists := claims[node]; {
	case err != nil:
	case !exists:
		one.Why = NodeGone
	case !claim.Fits && (!claim.Keeps || pod.Spec.NodeName == ""):
		one.Why = NodeUnfit
	case one.Active:
		at.kept++
	}
	s.Running = append(s.Running, one)
	if one.Why != "" {
		s.Misplaced = append(s.Misplaced, one)
	}
}
