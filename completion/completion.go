// Package completion answers "is a job over, how many Pods may run now, and when do I have to look again?"
//
// Package completion is for jobs of your own kind with a Pod, a pull or a container per item: a run on every Node, an
// image on some Nodes, a debugger in some Pods. Such jobs share a policy: the parallelism, the meaning of a failure,
// the deadline, an end or none, and the time before deletion. The controller knows the items and their results.
//
// # Use
//
// Count, and ask [Next] in each pass, even without any news: the instant of the job's failure or deletion comes without
// an event, and a new process knows of no timer.
//
//	step := completion.Next(rules, progress, now)
//	switch step.State {
//	case completion.Running:            // start step.Start of the missing items
//	case completion.Complete, completion.Failed: // first record the end, then end the running items
//	case completion.Over:               // end the running items, and delete the job if step.Remove
//	}
//	requeue after step.After, whatever the state
//
// Record a job's end before acting on the end, and a process that dies in between goes on from there. The reasons in
// [Step.Why] explain the job's end or wait.
//
// # Failures
//
// [Hold] pauses a job after a failure, until somebody has looked at the job. Known failures do not hold the job again:
// keep in its status the number of failures ([Progress.Known]) and whether failures hold the job ([Progress.Held]), and
// clear Held when the user changes the spec.
package completion

import (
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// Codes of the reasons why a job has ended, or does not start more.
const (
	// DeadlineExceeded means that a job has run past its deadline, and has failed.
	DeadlineExceeded reason.Code = "DeadlineExceeded"
	// FailureNotTolerated means that an item of the job has failed, and the job with the item.
	FailureNotTolerated reason.Code = "FailureNotTolerated"
	// HeldByFailures means that an item has failed, and nothing starts before somebody has looked at the failure. Nobody
	// checks the deadline meanwhile, but its time goes on: move Progress.Started if the time must not count.
	HeldByFailures reason.Code = "HeldByFailures"
	// JobPaused means that the spec pauses the job: nothing starts, and nobody checks the deadline meanwhile, as with
	// HeldByFailures.
	JobPaused reason.Code = "JobPaused"
	// OverParallelism means that more items run than allowed, because the limit was lowered meanwhile. No item is ended.
	OverParallelism reason.Code = "OverParallelism"
	// ParallelismReached means that as many items run as allowed, and further items wait.
	ParallelismReached reason.Code = "ParallelismReached"
)

// OnFailure is the meaning of a failure for the job.
type OnFailure uint8

const (
	// GoOn counts a failure as done.
	GoOn OnFailure = iota
	// End fails the job.
	End
	// Hold pauses the job.
	Hold
)

// Rules are the user's wishes. The zero value is a job that may run nothing.
type Rules struct {
	// Parallelism is how many may run side by side. See [Parallelism].
	Parallelism int
	// Endless says that there may always be more to do: the job is not complete when all is done.
	Endless bool
	// Paused holds the job up: nothing is started, and the job does not end.
	Paused bool
	// OnFailure is the meaning of a failure.
	OnFailure OnFailure
	// Deadline is the time from the job's start to its failure; nil for none.
	Deadline *time.Duration
	// TTL is the time from the job's end to its deletion; nil for never.
	TTL *time.Duration
	// Paths are the paths of the spec's fields, for reasons.
	Paths Paths
}

// Paths name fields of the spec.
type Paths struct{ Parallelism, Paused, OnFailure, Deadline string }

// Progress is the known progress of a job. Numbers below 0 count as 0.
type Progress struct {
	// Started and Ended are the times of the job's begin and end, or zero. Next takes a missing start for now.
	Started, Ended time.Time
	// Wanted is the number of items, and Done the number of ended items, successful or not.
	Wanted, Done int
	// Active is how many run, and Missing how many could be started.
	Active, Missing int
	// Failed is the number of failures, and Known the number of earlier known failures. If failed items disappear,
	// remember the known items: a mere number from a status mistakes a new failure for a failure that is gone.
	Failed, Known int
	// Held says that failures have paused the job, and nobody has changed its spec since.
	Held bool
}

// State is the present state of a job.
type State string

const (
	// Running means that the job is under way.
	Running State = "Running"
	// Paused means that the spec holds the job up.
	Paused State = "Paused"
	// Held means that failures hold the job up.
	Held State = "Held"
	// Complete means that all is done: the job ends now.
	Complete State = "Complete"
	// Failed means that the job ends now, early.
	Failed State = "Failed"
	// Over means that the job had ended before.
	Over State = "Over"
)

// Step is the next action.
type Step struct {
	State State
	// Start is the number of missing items that may start now.
	Start int
	// Remove says that the time after the job's end has passed, and the job is to be deleted.
	Remove bool
	// After is the time until another look even without an event; zero for never. A job that ends is looked at again soon:
	// the actions after the end come with no event, because writes to a status do not wake their controller.
	After time.Duration
	// Why explains the job's end, or why nothing more starts.
	Why reason.List
}

// afterEnd is the time from a job's end to another look. The numbers of its Pods are settled then.
const afterEnd = time.Second

// Next returns a job's state and next action. A job without items is Running until its deadline: items may still come.
// Next is pure.
func Next(r Rules, p Progress, now time.Time) Step {
	switch {
	case !p.Ended.IsZero():
		return over(r, p, now)
	case r.Paused:
		return Step{State: Paused, Why: because(JobPaused, r.Paths.Paused, "true", "nothing is started meanwhile", "set it to false")}
	case p.Failed > 0 && r.OnFailure == End:
		return Step{State: Failed, After: afterEnd, Why: because(FailureNotTolerated, r.Paths.OnFailure, "", strconv.Itoa(p.Failed)+" have failed", "see why, and run the job again")}
	case p.Failed > 0 && r.OnFailure == Hold && (p.Held || p.Failed > p.Known):
		return Step{State: Held, Why: because(HeldByFailures, r.Paths.OnFailure, "", strconv.Itoa(p.Failed)+" have failed", "change the spec, or remove what has failed")}
	case !r.Endless && p.Wanted > 0 && p.Done >= p.Wanted:
		return Step{State: Complete, After: afterEnd}
	}
	step := Step{State: Running}
	if r.Deadline != nil {
		step.After = *r.Deadline
		if !p.Started.IsZero() {
			step.After = p.Started.Add(*r.Deadline).Sub(now)
		}
		if step.After <= 0 {
			return Step{State: Failed, After: afterEnd, Why: because(DeadlineExceeded, r.Paths.Deadline, r.Deadline.String(), "the job has taken longer than it may", "allow more time, and run it again")}
		}
	}
	step.start(r, p)
	return step
}

// start says how many may be started.
func (s *Step) start(r Rules, p Progress) {
	limit, missing := strconv.Itoa(r.Parallelism), max(p.Missing, 0)
	switch room := r.Parallelism - max(p.Active, 0); {
	case room < 0:
		s.Why = because(OverParallelism, r.Paths.Parallelism, limit, strconv.Itoa(p.Active)+" run", "wait, or raise it")
	case room < missing && r.Parallelism == 0:
		s.Why = because(ParallelismReached, r.Paths.Parallelism, limit, strconv.Itoa(missing)+" may not be started", "raise it")
	case room < missing:
		s.Start = room
		s.Why = because(ParallelismReached, r.Paths.Parallelism, limit, strconv.Itoa(missing-room)+" wait for others to end", "wait, or raise it")
	default:
		s.Start = missing
	}
}

// over says when to delete an ended job.
func over(r Rules, p Progress, now time.Time) Step {
	step := Step{State: Over}
	if r.TTL == nil {
		return step
	}
	step.After = p.Ended.Add(*r.TTL).Sub(now)
	if step.After <= 0 {
		step.After, step.Remove = 0, true
	}
	return step
}

func because(code reason.Code, path, found, detail, remedy string) reason.List {
	return reason.List{{Code: code, Path: path, New: found, Detail: detail, Remedy: remedy}}
}

// Parallelism returns the number of items that may run side by side, given the wanted number. A percentage is rounded
// up; nil is no limit. The error comes from [partition.ResolveUncapped].
func Parallelism(path string, value *intstr.IntOrString, wanted int) (int, error) {
	if value == nil {
		return math.MaxInt32, nil
	}
	return partition.ResolveUncapped(path, value, wanted, partition.Up)
}

// Seconds returns a number of seconds as a duration; nil for nil. A larger number than a duration can hold gives the
// largest duration.
func Seconds[N int32 | int64](n *N) *time.Duration {
	if n == nil {
		return nil
	}
	const most = math.MaxInt64 / int64(time.Second)
	d := time.Duration(max(min(int64(*n), most), -most)) * time.Second
	return &d
}
