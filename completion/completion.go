// Package completion answers "is this job over, how many of its Pods may run now, and when do I have to look again?"
//
// It is for jobs of one's own kind that work through a set of things, with a Pod, a pull or a container for each: a run on every Node, an
// image on some Nodes, a debugger in some Pods. What such jobs have in common is their policy: how many run side by side, what a failure
// means, how long the whole may take, whether it ends at all, and how long it is kept afterwards. Which things there are, and what has become
// of each, the controller knows.
//
// # Use
//
// Count, and ask [Next] in each pass, also when nothing has happened: the instant at which the job fails or is to be deleted comes without an
// event, and a new process knows of no timer.
//
//	step := completion.Next(rules, progress, now)
//	switch step.State {
//	case completion.Running:            // start step.Start of what is missing
//	case completion.Complete, completion.Failed: // write that down first, and end what still runs then
//	case completion.Over:               // end what still runs, and delete the job if step.Remove
//	}
//	requeue after step.After, whatever the state
//
// Write down that a job is over before anything is done about it, and a process that dies in between goes on from there. The reasons in
// [Step.Why] say what ended the job, or what it waits for.
//
// # Failures
//
// [Hold] pauses a job when something has failed, until somebody has looked at it. What is known already is not held against the job again:
// keep in its status how many have failed ([Progress.Known]) and whether failures hold it ([Progress.Held]), and drop the latter when the
// user changes the spec.
package completion

import (
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/reason"
)

// Codes of the reasons why a job has ended, or does not start more.
const (
	// DeadlineExceeded means that a job has taken longer than it may, and has failed.
	DeadlineExceeded reason.Code = "DeadlineExceeded"
	// FailureNotTolerated means that something has failed, and the job with it.
	FailureNotTolerated reason.Code = "FailureNotTolerated"
	// HeldByFailures means that something has failed, and nothing is started before somebody has seen to it. Nobody looks at the deadline meanwhile, but its time
	// goes on: move Progress.Started where it is not to count.
	HeldByFailures reason.Code = "HeldByFailures"
	// JobPaused means that the spec pauses the job: it starts nothing, and nobody looks at its deadline meanwhile, as with HeldByFailures.
	JobPaused reason.Code = "JobPaused"
	// OverParallelism means that more run than may, because the limit was lowered meanwhile. None is ended for it.
	OverParallelism reason.Code = "OverParallelism"
	// ParallelismReached means that as many run as may, and others wait.
	ParallelismReached reason.Code = "ParallelismReached"
)

// OnFailure says what a failure means for the job.
type OnFailure uint8

const (
	// GoOn counts a failure as done.
	GoOn OnFailure = iota
	// End fails the job.
	End
	// Hold pauses the job.
	Hold
)

// Rules are what the user wants. The zero value is a job that may run nothing.
type Rules struct {
	// Parallelism is how many may run side by side. See [Parallelism].
	Parallelism int
	// Endless says that there may always be more to do: the job is not complete when all is done.
	Endless bool
	// Paused holds the job up: nothing is started, and it does not end.
	Paused bool
	// OnFailure says what a failure means.
	OnFailure OnFailure
	// Deadline is how long after its start the job fails; nil for never.
	Deadline *time.Duration
	// TTL is how long after its end the job is deleted; nil for never.
	TTL *time.Duration
	// Paths are those of the spec's fields, for reasons.
	Paths Paths
}

// Paths name fields of the spec.
type Paths struct{ Parallelism, Paused, OnFailure, Deadline string }

// Progress is what is known of a job. Numbers below 0 count as 0.
type Progress struct {
	// Started and Ended are when the job began and ended; zero if it has not. Now stands for a start that was not written down yet.
	Started, Ended time.Time
	// Wanted is how many there are to do, and Done how many of these have ended, well or not.
	Wanted, Done int
	// Active is how many run, and Missing how many could be started.
	Active, Missing int
	// Failed is how many have failed, and Known how many of them were known before. Where failed ones go, remember which were known: a number that is
	// read from a status takes a new one for one that is gone.
	Failed, Known int
	// Held says that failures have paused the job, and that nobody has changed its spec since.
	Held bool
}

// State is what a job is now.
type State string

const (
	// Running means that the job is under way.
	Running State = "Running"
	// Paused means that the spec holds it up.
	Paused State = "Paused"
	// Held means that failures hold it up.
	Held State = "Held"
	// Complete means that all is done: the job ends now.
	Complete State = "Complete"
	// Failed means that the job ends now, early.
	Failed State = "Failed"
	// Over means that the job had ended before.
	Over State = "Over"
)

// Step is what to do next.
type Step struct {
	State State
	// Start is how many of those that are missing may be started now.
	Start int
	// Remove says that the job was over for long enough, and is to be deleted.
	Remove bool
	// After is when to look again even if nothing happens; zero for never. A job that ends is looked at again soon: what is to be done then comes
	// with no event, since controllers are not woken by what they write to a status.
	After time.Duration
	// Why says what has ended the job, or what keeps it from starting more.
	Why reason.List
}

// afterEnd is how long after its end a job is looked at again. The numbers of its Pods are settled then.
const afterEnd = time.Second

// Next says what a job is and may do. A job that wants nothing is Running until its deadline: there may be something to do yet. It is pure.
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

// over says when a job that has ended is to be deleted.
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

// Parallelism returns how many may run side by side of as many as are wanted. A percentage is rounded up; nil is no limit. The
// error is that of [partition.ResolveUncapped].
func Parallelism(path string, value *intstr.IntOrString, wanted int) (int, error) {
	if value == nil {
		return math.MaxInt32, nil
	}
	return partition.ResolveUncapped(path, value, wanted, partition.Up)
}

// Seconds returns a number of seconds as a duration; nil for nil. More than a duration can hold is as much as it can.
func Seconds[N int32 | int64](n *N) *time.Duration {
	if n == nil {
		return nil
	}
	const most = math.MaxInt64 / int64(time.Second)
	d := time.Duration(max(min(int64(*n), most), -most)) * time.Second
	return &d
}
