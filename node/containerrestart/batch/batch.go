// Package batch answers "which Pods of a workload are restarted in place now, and why no more?"
//
// A restart of a workload is a rollout without a change. A restarted Pod stands for an updated Pod, so the arithmetic
// is package rollout's: a partition keeps Pods as they are, and by its own action no step takes available Pods below
// the wanted number less MaxUnavailable. The end, a pause and a failure are package completion's.
//
//	step := batch.Next(rules, record, members, now)
//	for each name in step.Restart: ask the Pod's disruption budgets, and make a request of package containerrestart
//	write step.State to the record, and look again after step.After
//
// A budget outside the workload may refuse a Pod: put the reason into Member.Refused for a while, and the next Pod has
// its turn. Every step decides from scratch, so a process that dies between two steps costs nothing.
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package batch

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// Rules are the wishes of a restart and of the workload, in absolute numbers: see package rollout/partition.
type Rules struct {
	// Replicas is the wanted number of Pods.
	Replicas int
	// Partition is the number of Pods that are not restarted: the last in the order of the members.
	Partition int
	// MaxUnavailable is how many Pods may be unavailable for a further restart. With zero no Pod is restarted.
	MaxUnavailable int
	// Paused holds the restart up: no further Pod is restarted.
	Paused bool
	// OnFailure is the meaning of a failed Pod for the restart.
	OnFailure completion.OnFailure
	// Deadline is the time from the start to the failure; nil for none.
	Deadline *time.Duration
	// TTL is the time from the end to the deletion of the record; nil for never.
	TTL *time.Duration
	// Paths are the paths of the fields, for reasons.
	Paths Paths
}

// Paths name fields of the restart and of the workload.
type Paths struct{ Partition, MaxUnavailable, Paused, OnFailure, Deadline string }

// Record is the recorded progress.
type Record struct {
	// Started and Ended are the times of the restart's begin and end; zero for none.
	Started, Ended time.Time
	// Known is the number of failed Pods of an earlier look, and Held says that failures hold the restart: see
	// completion.Progress.
	Known int
	Held  bool
}

// Standing is the progress of a Pod.
type Standing uint8

const (
	// Waiting Pods wait for their restart.
	Waiting Standing = iota
	// Restarting Pods have a request under way, and count as unavailable.
	Restarting
	// Restarted Pods are done: by a request, by a restart of all containers for any cause, or created since.
	Restarted
	// Failed Pods had a request that failed.
	Failed
)

// Member is an active Pod of the workload.
type Member struct {
	// Name of the Pod.
	Name     string
	Standing Standing
	// Available says that the Pod serves.
	Available bool
	// Refused says why a waiting Pod may not be restarted now; without a code for no such reason.
	Refused reason.Reason
}

// Step is the next action.
type Step struct {
	// State is as in package completion.
	State completion.State
	// Restart names the Pods to restart now, in order.
	Restart []string
	// Remove says that the time after the end has passed, and the record is to be deleted.
	Remove bool
	// After is the time until another look even without an event; zero for never.
	After time.Duration
	// Why explains the end, or why no more Pods are restarted.
	Why reason.List
}

// refusedAgain is the time until another look at Pods refused by a budget outside the workload.
const refusedAgain = 5 * time.Second

// Next returns the next step of a restart. members are in the order of restarts. A restart is complete when every
// member is done, and at once for a workload without Pods.
func Next(r Rules, record Record, members []Member, now time.Time) Step {
	end := completion.Next(completion.Rules{
		Parallelism: math.MaxInt, Paused: r.Paused, OnFailure: r.OnFailure, Deadline: r.Deadline, TTL: r.TTL,
		Paths: completion.Paths{Paused: r.Paths.Paused, OnFailure: r.Paths.OnFailure, Deadline: r.Paths.Deadline},
	}, progress(record, members), now)
	step := Step{State: end.State, Remove: end.Remove, After: end.After, Why: end.Why}
	if step.State == completion.Running {
		r.choose(&step, members)
	}
	return step
}

// progress counts the members for completion.
func progress(record Record, members []Member) completion.Progress {
	p := completion.Progress{Started: record.Started, Ended: record.Ended, Known: record.Known, Held: record.Held, Wanted: len(members)}
	for _, m := range members {
		switch m.Standing {
		case Restarting:
			p.Active++
		case Restarted:
			p.Done++
		case Failed:
			p.Done++
			p.Failed++
		default:
			p.Missing++
		}
	}
	if len(members) == 0 {
		p.Wanted, p.Done = 1, 1 // nothing to restart is a restart that is done
	}
	return p
}

// choose picks the Pods within the budget. Pods beyond the wanted number are to be restarted too, and make the budget
// no larger: nobody knows how long they stay.
func (r *Rules) choose(step *Step, members []Member) {
	var counts rollout.Counts
	var waiting []Member
	for _, m := range members {
		counts.Add(m.Standing != Waiting, m.Available && m.Standing != Restarting)
		if m.Standing == Waiting {
			waiting = append(waiting, m)
		}
	}
	plan := rollout.Plan(rollout.Spec{
		Replicas: max(r.Replicas, len(members)), Partition: r.Partition, MaxUnavailable: r.MaxUnavailable, InPlace: true,
		Paths: rollout.Paths{Partition: r.Paths.Partition, MaxUnavailable: r.Paths.MaxUnavailable},
	}, counts)
	for _, limit := range plan.Limits {
		if limit.Code == rollout.PartitionReached {
			limit.Detail = fmt.Sprintf("%d Pods have not restarted, %d are kept so", len(waiting), r.Partition)
		}
		step.Why = append(step.Why, limit)
	}
	// A refused Pod uses no budget before the Pods that may be restarted.
	slices.SortStableFunc(waiting[:max(len(waiting)-plan.Keep, 0)], func(a, b Member) int { return refused(a) - refused(b) })
	for _, m := range rollout.ToUpdate(plan, counts, waiting, func(m Member) bool { return m.Available }) {
		if refused(m) == 0 {
			step.Restart = append(step.Restart, m.Name)
		}
	}
	for _, m := range waiting[:max(len(waiting)-plan.Keep, 0)] {
		if refused(m) == 1 {
			step.Why = append(step.Why, m.Refused)
			if step.After <= 0 || step.After > refusedAgain {
				step.After = refusedAgain
			}
		}
	}
}

func refused(m Member) int {
	if m.Refused.Code != "" {
		return 1
	}
	return 0
}

// IsRestarted reports whether all of the Pod's named containers have had an instance that started at a time or later;
// without names all containers of the spec. Such an instance may have ended since: the instance before has ended in any
// case. A Pod's status has whole seconds, and the clock is the Node's.
func IsRestarted(pod *corev1.Pod, names []string, since time.Time) bool {
	if len(names) == 0 {
		names = nil
		for i := range pod.Spec.Containers {
			names = append(names, pod.Spec.Containers[i].Name)
		}
	}
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		status := podstate.ContainerStatus(pod, name)
		return status == nil || lastStart(status).Before(since.Truncate(time.Second))
	})
}

// lastStart is the start of a container's last instance, the zero time for a container without any.
func lastStart(status *corev1.ContainerStatus) (last time.Time) {
	if running := status.State.Running; running != nil {
		return running.StartedAt.Time
	}
	for _, ended := range []*corev1.ContainerStateTerminated{status.LastTerminationState.Terminated, status.State.Terminated} {
		if ended != nil {
			last = ended.StartedAt.Time
		}
	}
	return last
}
