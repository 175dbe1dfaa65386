// Package completion answers "is a job over, how many Pods may run now, and when do I have to look again?"
//
// Package completion is for kinds of jobs with many items, where an item is a Pod, an image pull or a container: for
// example a program on every Node, an image on some Nodes, a debugger in some Pods. Such jobs share a policy: the
// parallelism, the effect of a failure, the deadline, whether the job ever completes, and the time before deletion.
// The controller counts the items and their results.
//
// # Use
//
// Count the items and call [Next] in each reconcile, even if nothing has changed: no event announces the time of the
// job's failure or deletion, and a restarted process has no timer.
//
//	step := completion.Next(rules, progress, now)
//	switch step.State {
//	case completion.Running:            // start step.Start of the missing items
//	case completion.Complete, completion.Failed: // first record the end, then end the running items
//	case completion.Over:               // end the running items, and delete the job if step.Remove
//	}
//	requeue after step.After, whatever the state
//
// Record a job's end in its status before acting on the end: a process that is restarted in between then continues from
// the status. The reasons in [Step.Why] explain why the job has ended or waits.
//
// # Failures
//
// [Hold] pauses a job after a failure, until a user changes the job's spec. Failures that were counted before do not
// pause the job again: keep in the job's status the number of failures ([Progress.Known]) and whether failures pause
// the job ([Progress.Held]), and clear Held when the user changes the spec.
package completion

import (
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// These are the codes of the reasons why a job has ended, or starts no more items.
const (
	// DeadlineExceeded means that a job has run past its deadline, and has failed.
	DeadlineExceeded reason.Code = "DeadlineExceeded"
	// FailureNotTolerated means that an item of the job has failed, and therefore the job has failed.
	FailureNotTolerated reason.Code = "FailureNotTolerated"
	// HeldByFailures means that an item has failed, and no item starts until a user changes the job's spec. The
	// deadline does not end the job while failures pause the job, but the time keeps counting: move Progress.Started if
	// the paused time must not count.
	HeldByFailures reason.Code = "HeldByFailures"
	// JobPaused means that the spec pauses the job: no item starts, and the deadline does not end the job, as with
	// HeldByFailures.
	JobPaused reason.Code = "JobPaused"
	// OverParallelism means that more items run than allowed, because the user has lowered the limit since their start.
	// No running item is stopped.
	OverParallelism reason.Code = "OverParallelism"
	// ParallelismReached means that as many items run as allowed, and further items wait.
	ParallelismReached reason.Code = "ParallelismReached"
)

// OnFailure says what a failed item means for its job.
type OnFailure uint8

const (
	// GoOn means that a failed item counts as done: the job continues.
	GoOn OnFailure = iota
	// End means that the whole job fails when an item fails.
	End
	// Hold means that the job pauses when an item fails.
	Hold
)

// Rules are the settings of a job's spec. The zero value is a job that may run no items.
type Rules struct {
	// Parallelism is how many items may run at the same time. See [Parallelism].
	Parallelism int
	// Endless says that more items may always appear: the job is not complete when all items are done.
	Endless bool
	// Paused pauses the job: no item is started, and the job does not end.
	Paused bool
	// OnFailure says what a failed item means for the job.
	OnFailure OnFailure
	// Deadline is the time from the job's start to its failure; nil for none.
	Deadline *time.Duration
	// TTL is the time from the job's end to its deletion; nil for never.
	TTL *time.Duration
	// Paths are the paths of the spec's fields, used in reasons.
	Paths Paths
}

// Paths are paths of the spec's fields.
type Paths struct{ Parallelism, Paused, OnFailure, Deadline string }

// Progress is the controller's count and record of a job. Numbers below 0 count as 0.
type Progress struct {
	// Started and Ended are the times of the job's begin and end, or zero. If the start is missing, Next uses the
	// current time.
	Started, Ended time.Time
	// Wanted is the number of items, and Done the number of ended items, successful or not.
	Wanted, Done int
	// Active is how many items run, and Missing how many items could be started.
	Active, Missing int
	// Failed is the number of failed items, and Known the number of failures counted in earlier reconciles. If failed
	// items can disappear, store which failures are known: with only a number in the status, a new failure would not
	// be noticed if a known failure has disappeared.
	Failed, Known int
	// Held says that failures have paused the job, and nobody has changed the job's spec since.
	Held bool
}

// State is the state of a job after a call of Next.
type State string

const (
	// Running means that the job runs.
	Running State = "Running"
	// Paused means that the job's spec pauses the job.
	Paused State = "Paused"
	// Held means that failures pause the job.
	Held State = "Held"
	// Complete means that all items are done: the job ends now.
	Complete State = "Complete"
	// Failed means that the job ends now, before all items are done.
	Failed State = "Failed"
	// Over means that the job had ended before this reconcile.
	Over State = "Over"
)

// Step is the controller's next action for a job.
type Step struct {
	State State
	// Start is the number of missing items that may start now.
	Start int
	// Remove says that the job's TTL has passed, and the controller must delete the job.
	Remove bool
	// After is the time after which Next must be called again even if no event occurs; zero for never. A job that ends
	// must be reconciled again soon, because the controller's write to the status does not enqueue the job.
	After time.Duration
	// Why explains why the job has ended, or why no more items start.
	Why reason.List
}

// afterEnd is the time from a job's end to the next reconcile. By then, the counts of the job's Pods no longer
// change.
const afterEnd = time.Second

// Next returns a job's state and next action. A job without items is Running until its deadline, because items may
// still appear. Next is pure.
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

// start sets how many items may be started.
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

// over says when to delete a job that has ended.
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

// Parallelism returns the number of items that may run at the same time, out of the wanted number of items. A
// percentage is rounded up; nil means no limit. The error comes from [partition.ResolveUncapped].
func Parallelism(path string, value *intstr.IntOrString, wanted int) (int, error) {
	if value == nil {
		return math.MaxInt32, nil
	}
	return partition.ResolveUncapped(path, value, wanted, partition.Up)
}

// Seconds converts a number of seconds to a duration; nil gives nil. A number too large for a duration gives the
// largest duration.
func Seconds[N int32 | int64](n *N) *time.Duration {
	if n == nil {
		return nil
	}
	const most = math.MaxInt64 / int64(time.Second)
	d := time.Duration(max(min(int64(*n), most), -most)) * time.Second
	return &d
}
