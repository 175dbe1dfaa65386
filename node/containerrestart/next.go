package containerrestart

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/reason"
)

// Step is the next action for a request.
type Step struct {
	// State is completion.Running while containers are to be restarted, and Complete, Failed or Over at the end and
	// afterwards. See package completion.
	State completion.State
	// Containers are the request's containers with today's record.
	Containers []Container
	// Stop is the container to stop now, after the record is written; nil for none.
	Stop *StopOrder
	// Remove says that the time after the end has passed, and the request is to be deleted.
	Remove bool
	// After is the time until another look even without an event; zero for never.
	After time.Duration
	// Why explains the end, and the wait or failure of each container.
	Why reason.List
}

// StopOrder names an instance to be stopped.
type StopOrder struct {
	// Index is the place of the container in the request.
	Index int
	// Instance is the instance to be stopped, and no successor.
	Instance Instance
}

// Over reports whether the request has ended, now or before.
func (s *Step) Over() bool { return s.State != completion.Running }

// The shortest and longest times until another look at a runtime, which tells nobody about its instances.
const (
	soonest = 200 * time.Millisecond
	latest  = 10 * time.Second
)

// statusAgain is the time until another look at a Pod's status or at a stop, in case of a lost event.
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

// over says when to delete an ended request.
func over(r *Request, now time.Time) Step {
	end := completion.Next(completion.Rules{TTL: r.TTL}, completion.Progress{Ended: r.Ended}, now)
	return Step{State: end.State, Containers: slices.Clone(r.Containers), Remove: end.Remove, After: end.After, Why: end.Why}
}

// pass is a look at a request.
type pass struct {
	*Request

	observed *Observed
	paths    Paths
	now      time.Time
	judged   []judged
}

// judged is a container with its present state.
type judged struct {
	Container

	// due is the instance to be stopped when its turn comes; nil for none.
	due *Instance
	// isStopping says that a stop is under way.
	isStopping bool
	// after is the time until another look; zero for none.
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

// judge compares a container's newest instance with the record.
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

// isOld reports whether an instance is the instance to be replaced.
func (j *judged) isOld(i Instance) bool {
	return sameID(i.ID, j.Before) || sameID(i.ID, j.StoppedID)
}

// judgeStopped is about a container without a running instance: the stop has ended, or the container has ended by
// itself. The kubelet is about to start the container, or to wait after several ends.
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

// lookAgain is the time until another look at a container that is to start: short after a short time.
func (p *pass) lookAgain(since time.Time) time.Duration {
	if since.IsZero() {
		return soonest
	}
	return min(max(p.now.Sub(since)/10, soonest), latest)
}

// judgeOld is about a running instance to be stopped.
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

// judgeNew is about a running instance that replaces the instance of the request's beginning.
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

// wait says why a container is not restarted yet.
func (p *pass) wait(j *judged, code reason.Code, after time.Duration, detail, remedy string) {
	j.after = after
	j.Why = p.because(j, code, detail, remedy)
}

// fail gives a container up.
func (p *pass) fail(j *judged, code reason.Code, detail, remedy string) {
	j.Phase = Failed
	j.Why = p.because(j, code, detail, remedy)
}

func (p *pass) because(j *judged, code reason.Code, detail, remedy string) reason.Reason {
	return reason.Reason{Code: code, Path: p.paths.Containers + "[" + j.Name + "]", Detail: detail, Remedy: remedy}
}

// step puts the judgements together.
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

// cleanRecord leaves only reasons of failures in the record: waits are for the step alone.
func (p *pass) cleanRecord(step *Step) {
	for i := range step.Containers {
		if step.Containers[i].Phase != Failed {
			step.Containers[i].Why = reason.Reason{}
		}
	}
}

// wake asks for another look after a while.
func (s *Step) wake(after time.Duration) {
	if s.After <= 0 || after < s.After {
		s.After = after
	}
}

// choose picks the container to stop now: the first in the list that is due, unless a stop is under way, the order
// holds the container up, or the Pod still serves.
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

// stop gives the order to stop a container, if the Pod has been unready for long enough.
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

// unready says how long the Pod must still be unready. A time to come in UnreadySince, of a clock ahead, counts as now.
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

// explainOrder gives the next due container the reason for its wait.
func (p *pass) explainOrder(first int) {
	for i := first + 1; i < len(p.judged); i++ {
		if j := &p.judged[i]; j.due != nil {
			j.Why = p.because(j, OrderAwaited, "container "+p.judged[first].Name+" comes first", "")
			return
		}
	}
}
