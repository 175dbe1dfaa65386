// Package batch answers "which Pods of a workload are restarted in place now, and why no more?"
//
// A restart of a workload's Pods is planned like a rollout. A restarted Pod counts as an updated Pod, so package
// rollout plans the restarts. A partition excludes Pods from the restart. No step itself reduces the number of
// available Pods below the wanted number minus MaxUnavailable. Package completion decides when the restart ends, and
// what a pause and a failure mean.
//
//	step := batch.Next(rules, record, members, now)
//	for each name in step.Restart: ask the Pod's disruption budgets, and make a request of package containerrestart
//	write step.State to the record, and look again after step.After
//
// A disruption budget outside the workload may refuse the restart of a Pod. Then pass the reason in Member.Refused
// for a while, so that Next chooses another Pod first. Every step is decided from the present state alone, so a crash
// between two steps does no harm.
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

// Rules are the settings of a restart and of the workload, with percentages resolved to numbers: see package
// rollout/partition.
type Rules struct {
	// Replicas is the wanted number of Pods.
	Replicas int
	// Partition is the number of Pods that are not restarted: the last members in the list.
	Partition int
	// MaxUnavailable is the largest number of unavailable Pods during the restart. If zero, no Pod is restarted.
	MaxUnavailable int
	// Paused pauses the restart: no further Pod is restarted.
	Paused bool
	// OnFailure says what happens to the whole restart after the restart of a Pod has failed.
	OnFailure completion.OnFailure
	// Deadline is the time from the start until the restart fails; nil for none.
	Deadline *time.Duration
	// TTL is the time from the end until the record is deleted; nil for never.
	TTL *time.Duration
	// Paths are the paths of the fields, used in reasons.
	Paths Paths
}

// Paths are paths of fields in the API objects of the restart and of the workload.
type Paths struct{ Partition, MaxUnavailable, Paused, OnFailure, Deadline string }

// Record is the progress recorded in the restart's status.
type Record struct {
	// Started and Ended are the times when the restart began and ended; zero if not yet.
	Started, Ended time.Time
	// Known is the number of failed Pods counted in an earlier step. Held means that failures pause the restart: see
	// completion.Progress.
	Known int
	Held  bool
}

// Standing is the progress of a Pod's restart.
type Standing uint8

const (
	// Waiting means that the Pod has not been restarted yet.
	Waiting Standing = iota
	// Restarting means that a request for the Pod is in progress. The Pod counts as unavailable.
	Restarting
	// Restarted means that the Pod needs no restart any more: its request is complete, all containers have restarted
	// for another cause, or the Pod was created after the start of the restart.
	Restarted
	// Failed means that the request for the Pod has failed.
	Failed
)

// Member is an active Pod of the workload.
type Member struct {
	// Name is the name of the Pod.
	Name     string
	Standing Standing
	// Available means that the Pod is available.
	Available bool
	// Refused is the reason why a waiting Pod must not be restarted now; the code is empty if the Pod may be
	// restarted.
	Refused reason.Reason
}

// Step is the caller's next action.
type Step struct {
	// State is the state of the restart as in package completion.
	State completion.State
	// Restart are the names of the Pods to restart now, in order.
	Restart []string
	// Remove means that the TTL has passed, and that the record must be deleted.
	Remove bool
	// After is the time until Next must be called again even if no event occurs; zero for never.
	After time.Duration
	// Why explains why the restart has ended, or why no more Pods are restarted now.
	Why reason.List
}

// refusedAgain is the time until the next step if a budget outside the workload has refused Pods.
const refusedAgain = 5 * time.Second

// Next returns the next step of a restart. members lists the active Pods in the order in which they are restarted. A
// restart is complete when every member is done; the restart of a workload without Pods is complete at once.
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

// progress counts the members for package completion.
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
		p.Wanted, p.Done = 1, 1 // a restart of no Pods counts as done
	}
	return p
}

// choose chooses the Pods to restart within the budget. Pods beyond the wanted number are restarted, too. Such Pods
// count as wanted Pods, so that they do not allow more Pods to be unavailable: they may be deleted at any time.
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
	// Refused Pods come last, so that they do not use up the budget of Pods that may be restarted.
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

// IsRestarted reports whether each of the Pod's named containers has an instance that was started at or after the
// given time; if no names are given, all containers of the spec count. The instance need not run any more: its start
// alone proves that the earlier instance has ended. Times in a Pod's status have whole seconds, and come from the
// Node's clock.
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

// lastStart returns the start time of a container's last instance, or the zero time if there was none.
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
