package containerrestart

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/reason"
)

// Step is the caller's next action for a request.
type Step struct {
	// State is completion.Running while containers must still be restarted; Complete, Failed or Over when the request
	// has ended. See package completion.
	State completion.State
	// Containers are the request's containers with the progress to record now.
	Containers []Container
	// Stop is the container to stop now, after the progress was recorded; nil if none.
	Stop *StopOrder
	// Remove means that the TTL has passed, and that the request must be deleted.
	Remove bool
	// After is the time until Next must be called again even if no event occurs; zero for never.
	After time.Duration
	// Why explains why the request has ended, and why each container waits or has failed.
	Why reason.List
}

// StopOrder identifies an instance that must be stopped.
type StopOrder struct {
	// Index is the index of the container in the request.
	Index int
	// Instance is the ID of the instance to stop; a later instance of the container must not be stopped.
	Instance Instance
}

// Over reports whether the request has ended, in this step or before.
func (s *Step) Over() bool { return s.State != completion.Running }

// These are the shortest and longest times until the next read from a container runtime, because a runtime sends no
// events about its instances.
const (
	soonest = 200 * time.Millisecond
	latest  = 10 * time.Second
)

// statusAgain is the time until the next check of a Pod's status or of a stop, in case an event was lost.
const statusAgain = 3 * time.Second

// Next returns the next step of a request.
func Next(r Request, o Observed, now time.Time) Step {
	paths := r.Paths.orDefaults()
	if !r.Ended.IsZero() {
		return over(&r, now)
	}
	if problems := r.problems(paths); len(problems) > 0 {
		return Step{State: completion.Failed, Containers: slices.Clone(r.Containers), After: time.Second, Why: problems}
	}
	p := &pass{Request: &r, observed: &o, paths: paths, now: now}
	p.judgeAll()
	return p.step()
}

// over returns the step of a request that has ended, which says when to delete the request.
func over(r *Request, now time.Time) Step {
	end := completion.Next(completion.Rules{TTL: r.TTL}, completion.Progress{Ended: r.Ended}, now)
	return Step{State: end.State, Containers: slices.Clone(r.Containers), Remove: end.Remove, After: end.After, Why: end.Why}
}

// pass is the state of a single call of Next.
type pass struct {
	*Request

	observed *Observed
	paths    Paths
	now      time.Time
	judged   []judged
}

// judged is a container with its new progress and what this call has found out about the container.
type judged struct {
	Container

	// due is the instance that must be stopped; nil if none.
	due *Instance
	// isStopping means that a stop is in progress.
	isStopping bool
	// after is the time until the next check; zero if none is needed.
	after time.Duration
}

func (p *pass) judgeAll() {
	for _, c := range p.Containers {
		j := judged{Container: c}
		if !c.Phase.isFinal() {
			p.judge(&j)
		}
		p.judged = append(p.judged, j)
	}
}

// judge compares a container's newest instance with the instance from before the request, and sets the new progress.
func (p *pass) judge(j *judged) {
	i, found := p.observed.newest(j.Name)
	if j.Phase != Restarting {
		j.Phase = Pending
	}
	switch {
	case !found:
		p.wait(j, InstanceAwaited, statusAgain, "the runtime of the Node knows no instance", "")
	case i.State == Unknown:
		p.wait(j, InstanceAwaited, statusAgain, "the runtime of the Node does not know the state of the instance", "")
	case i.State != Running:
		p.judgeStopped(j, i)
	case j.isOld(i) || p.Force && !j.Stopped:
		p.judgeOld(j, i)
	default:
		p.judgeNew(j, i)
	}
}

// isOld reports whether the restart must replace an instance.
func (j *judged) isOld(i Instance) bool {
	return sameID(i.ID, j.Before) || sameID(i.ID, j.StoppedID)
}

// judgeStopped handles a container without a running instance: the stop has ended, or the container has ended by
// itself. The kubelet will start the container soon, or waits in its backoff because the container has ended several
// times.
func (p *pass) judgeStopped(j *judged, i Instance) {
	j.Phase = Restarting
	if i.State != Exited {
		p.wait(j, StartAwaited, soonest, "the runtime has not started the new instance yet", "")
		return
	}
	if j.Stopped = true; p.observed.view(i).Ended {
		p.fail(j, NotStartedAgain, fmt.Sprintf("exit code %d, and the kubelet does not start the container again", i.ExitCode), "delete the Pod")
		return
	}
	p.wait(j, StartAwaited, p.lookAgain(i.Finished), fmt.Sprintf("exit code %d, and the kubelet has not started the container again yet", i.ExitCode), "see the kubelet's events of the Pod")
}

// lookAgain returns the time until the next check of a container that the kubelet should start. The result grows with
// the time since the container has stopped.
func (p *pass) lookAgain(since time.Time) time.Duration {
	if since.IsZero() {
		return soonest
	}
	return min(max(p.now.Sub(since)/10, soonest), latest)
}

// judgeOld handles a running instance that must be stopped.
func (p *pass) judgeOld(j *judged, i Instance) {
	switch stop, asked := p.observed.stop(i.ID); {
	case asked && stop.Err != nil:
		p.fail(j, StopFailed, reason.Shorten(stop.Err.Error(), 512), "see the log of the container runtime")
	case asked:
		j.Phase, j.Stopped, j.StoppedID, j.isStopping = Restarting, true, i.ID, true
		p.wait(j, StopAwaited, statusAgain, "the container has not ended yet", "")
	default:
		j.due = &i
	}
}

// judgeNew handles a running instance that is newer than the instance at the request's beginning.
func (p *pass) judgeNew(j *judged, i Instance) {
	j.Phase, j.Stopped = Restarting, true
	ran := time.Duration(0)
	if !i.Started.IsZero() {
		ran = max(p.now.Sub(i.Started), 0)
	}
	switch {
	case !p.observed.view(i).Ready:
		p.wait(j, ReadyAwaited, statusAgain, "the new instance is not ready in the Pod's status", "see the container's log and its readiness probe")
	case ran < p.MinStarted:
		p.wait(j, MinStartedAwaited, p.MinStarted-ran, "", "")
		j.Why.Path, j.Why.New = p.paths.MinStarted, p.MinStarted.String()
		j.Why.Detail = "the new instance of container " + j.Name + " has run for " + ran.Round(time.Second).String()
	default:
		j.Phase, j.Why = Restarted, reason.Reason{}
	}
}

// wait records why a container has not restarted yet.
func (p *pass) wait(j *judged, code reason.Code, after time.Duration, detail, remedy string) {
	j.after = after
	j.Why = p.because(j, code, detail, remedy)
}

// fail records that a container has failed.
func (p *pass) fail(j *judged, code reason.Code, detail, remedy string) {
	j.Phase = Failed
	j.Why = p.because(j, code, detail, remedy)
}

func (p *pass) because(j *judged, code reason.Code, detail, remedy string) reason.Reason {
	return reason.Reason{Code: code, Path: p.paths.Containers + "[" + j.Name + "]", Detail: detail, Remedy: remedy}
}

// step derives the Step from all containers.
func (p *pass) step() Step {
	done, failed := 0, 0
	for _, j := range p.judged {
		if j.Phase.isFinal() {
			done++
		}
		if j.Phase == Failed {
			failed++
		}
	}
	end := completion.Next(completion.Rules{
		Parallelism: math.MaxInt, OnFailure: p.OnFailure, Deadline: p.Deadline,
		Paths: completion.Paths{OnFailure: p.paths.OnFailure, Deadline: p.paths.Deadline},
	}, completion.Progress{Started: p.Started, Wanted: len(p.judged), Done: done, Failed: failed}, p.now)
	step := Step{State: end.State, After: end.After}
	if end.State == completion.Running {
		p.choose(&step)
	}
	step.Why = append(step.Why, end.Why...)
	for _, j := range p.judged {
		step.Containers = append(step.Containers, j.Container)
		if j.Why.Code != "" {
			step.Why = append(step.Why, j.Why)
		}
		if j.after > 0 {
			step.wake(j.after)
		}
	}
	p.cleanRecord(&step)
	return step
}

// cleanRecord removes reasons from the record unless a container has failed: reasons for waiting appear only in the
// Step.
func (p *pass) cleanRecord(step *Step) {
	for i := range step.Containers {
		if step.Containers[i].Phase != Failed {
			step.Containers[i].Why = reason.Reason{}
		}
	}
}

// wake makes the caller call Next again after a while.
func (s *Step) wake(after time.Duration) {
	if s.After <= 0 || after < s.After {
		s.After = after
	}
}

// choose chooses the container to stop now: the first in the list that must be stopped, unless a stop is in progress,
// an earlier container has not restarted yet, or the Pod is still ready.
func (p *pass) choose(step *Step) {
	if slices.ContainsFunc(p.judged, func(j judged) bool { return j.isStopping }) {
		return
	}
	for i := range p.judged {
		j := &p.judged[i]
		switch {
		case j.due != nil:
			p.stop(step, i)
			return
		case p.Ordered && !j.Phase.isFinal():
			p.explainOrder(i)
			return
		}
	}
}

// stop sets the container to stop, if the Pod has been unready for long enough.
func (p *pass) stop(step *Step, index int) {
	j := &p.judged[index]
	if wait, why := p.unready(); why.Code != "" {
		step.Why = append(step.Why, why)
		step.wake(wait)
		return
	}
	j.Phase, j.Stopped, j.StoppedID = Restarting, true, j.due.ID
	step.Stop = &StopOrder{Index: index, Instance: *j.due}
	step.wake(soonest)
}

// unready returns how long the Pod must still be unready before a stop. If UnreadySince is in the future because
// another clock is ahead, unready uses the present time.
func (p *pass) unready() (wait time.Duration, why reason.Reason) {
	if p.Unready == nil {
		return 0, why
	}
	why = reason.Reason{Code: UnreadyAwaited, Path: p.paths.Unready, New: p.Unready.String()}
	if p.UnreadySince.IsZero() {
		why.Detail, why.Remedy = "the Pod has not been made unready yet", "see whether the controller of the request runs"
		return statusAgain, why
	}
	if wait = min(p.UnreadySince.Add(*p.Unready).Sub(p.now), *p.Unready); wait <= 0 {
		return 0, reason.Reason{}
	}
	why.Detail = "the Pod stays unready before the stop"
	return wait, why
}

// explainOrder records why the next container waits for an earlier container.
func (p *pass) explainOrder(first int) {
	for i := first + 1; i < len(p.judged); i++ {
		if j := &p.judged[i]; j.due != nil {
			j.Why = p.because(j, OrderAwaited, "container "+p.judged[first].Name+" comes first", "")
			return
		}
	}
}
