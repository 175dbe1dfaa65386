package completion

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a Pod must leave its Node.
const (
	// NodeUnfit means that a Pod's Node does not fit the Pod any more: the Node's labels, taints or size have changed,
	// or the Node was cordoned.
	NodeUnfit reason.Code = "NodeUnfit"
	// NodeGone means that a Pod's Node does not exist any more.
	NodeGone reason.Code = "NodeGone"
	// JobOver means that the job has ended, but the Pod still runs.
	JobOver reason.Code = "JobOver"
)

// Standing is the state of a Pod that decides how the Pod counts for its job.
type Standing uint8

const (
	// Leaving means that the Pod is being deleted: a deleted Pod counts neither as a success nor as a failure. Leaving
	// also means that the Pod of a lost Node was marked as failed by the Pod garbage collector just before the deletion
	// of the Pod.
	Leaving Standing = iota
	// Active means that the Pod still runs or is about to run.
	Active
	// Succeeded means that the Pod has ended successfully.
	Succeeded
	// Broken means that the Pod has ended without success: its containers have failed, or the kubelet or the scheduler
	// has ended the Pod (see condition DisruptionTarget).
	Broken
	// Looping means that the Pod's containers restart again and again; the Pod counts as failed.
	Looping
)

// StandingOf says how a Pod counts for its job. A Pod is Looping if its restartPolicy is not Never, and the restarts of
// its containers and init containers add up to more than restartLimit. Admission should refuse the restartPolicy Always
// (the API server's default) for jobs: such a Pod never succeeds.
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

// isCollected reports whether the Pod garbage collector has ended a Pod. See pkg/controller/podgc/gc_controller.go of
// Kubernetes: the collector marks the Pod as failed, and deletes the Pod with its next request.
func isCollected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC"
	})
}

// restarts counts the restarts of all containers together.
func restarts(pod *corev1.Pod) (sum int64) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			sum += int64(statuses[i].RestartCount)
		}
	}
	return sum
}

// Claim says how a job may use a Node (not a PersistentVolumeClaim).
type Claim struct {
	// Fits says that the job may create a Pod on the Node.
	Fits bool
	// Keeps says that a Pod that already runs on the Node may stay. See nodefit.HealthTolerations.
	Keeps bool
}

// Unfinished is a Pod that has not ended and is not being deleted.
type Unfinished struct {
	*corev1.Pod

	// Active says that the Pod has not failed.
	Active bool
	// Why says why the Pod must leave its Node; empty if the Pod may stay on the Node.
	Why reason.Code
}

// Survey counts the Nodes and Pods of a job that runs a Pod on each Node. Lists are sorted by name.
type Survey struct {
	// Wanted is the number of Nodes on which a Pod of the job has run, runs or will run. Done is the number of these
	// Nodes whose Pod has ended.
	Wanted, Done int
	// Missing are the Nodes without a Pod. Each active Pod not pinned to a Node shortens Missing by a Node, because the
	// scheduler may be about to bind the Pod to a Node in the list.
	Missing []string
	// Active, Succeeded and Failed are numbers of Pods.
	Active, Succeeded, Failed int
	// Running are the Pods that have not ended. Misplaced are the Running Pods that must leave their Node.
	Running, Misplaced []Unfinished
	// Duplicates are the Nodes on which the job has more than one Pod.
	Duplicates []string

	unpinned int // number of active Pods that are not pinned to a Node
}

// Progress returns the progress of a job for Next. started and ended are the recorded times of the job, or zero. If
// failures pause the job (Hold), the caller must also set Known and Held.
func (s *Survey) Progress(started, ended time.Time) Progress {
	return Progress{Started: started, Ended: ended, Wanted: s.Wanted, Done: s.Done, Active: s.Active, Missing: len(s.Missing), Failed: s.Failed}
}

// Work lists the actions on a job and its Pods. Lists are sorted by name.
type Work struct {
	// Ends says that the job ends now: record the end in the job's status before the other actions.
	Ends bool
	// Create are the Nodes that need a new Pod.
	Create []string
	// Delete are the Pods that must leave their Node, each with its reason.
	Delete []Unfinished
	// Remove says that the controller must delete the job.
	Remove bool
}

// Work returns the actions for a step. While the job runs, Delete lists the misplaced Pods; after its end, Delete
// lists all Pods that have not ended.
func (s *Survey) Work(step Step) Work {
	work := Work{Ends: step.State == Complete || step.State == Failed, Remove: step.Remove}
	switch step.State {
	case Running:
		work.Create, work.Delete = s.Missing[:min(max(step.Start, 0), len(s.Missing))], s.Misplaced
	case Complete, Failed, Over:
		work.Delete = slices.Clone(s.Running)
		for i := range work.Delete {
			work.Delete[i].Why = JobOver
		}
	case Paused, Held:
	}
	return work
}

// OnNodes counts the Pods of a job that runs a Pod on each fitting Node. claims maps the name of each Node to the
// job's claim. A Pod not yet bound to a Node counts for its pinned Node (nodefit.NodeOf): pin new Pods with
// nodefit.Requirements.Place. A finished Node stays finished as long as its Pod exists, even if the Node no longer
// fits. If somebody else deletes a finished Pod, the job runs again on the Node. To avoid the repetition, record
// finished Nodes in the job's status, and clear Fits in their claims. OnNodes is pure.
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

// place has the numbers of the job's Pods on a Node: all Pods, active Pods, active Pods that may stay on the Node
// (kept), and ended Pods.
type place struct{ pods, active, kept, ended int }

// add counts a Pod for its Node.
func (s *Survey) add(pod *corev1.Pod, is Standing, places map[string]*place, claims map[string]Claim) {
	at := &place{} // the place of a Pod that is neither bound nor pinned to a Node
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
