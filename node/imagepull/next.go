package imagepull

import (
	"cmp"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Do is the verb of an Action.
type Do string

const (
	// Start means to begin a pull.
	Start Do = "Start"
	// Stop means to stop a pull. The caller must ignore the result of a stopped pull.
	Stop Do = "Stop"
)

// Action is a pull that an agent must begin or stop now.
type Action struct {
	Do    Do
	Image Reference
	// Round is the round of the pull: the caller must pass the number in Pull.Round.
	Round int64
	// Limit is the time after which a begun pull must end; 0 for a stop.
	Limit time.Duration
}

// Step is an agent's next action.
type Step struct {
	// Reports are the reports to record now, in the order of the wants.
	Reports []Report
	// Actions are the actions to carry out after the reports are recorded, stops before starts.
	Actions []Action
	// After is the time until Next must be called again even if no pull ends; 0 for never.
	After time.Duration
	// Why explains why pulls wait or have failed.
	Why reason.List
}

// These are the intervals at which the agent lists images and reads the free disk, because runtimes send no events:
// lookSoon while pulls are wanted, and lookLater afterwards.
const (
	lookSoon  = 5 * time.Second
	lookLater = time.Minute
)

// Next returns the next step of an agent. before are the recorded reports, from Merge. Pulls begin in the order of
// wants.
func Next(wants []Want, before []Report, seen Observed, bounds Bounds, now time.Time) Step {
	p := &pass{before: before, seen: &seen, bounds: &bounds, now: now, stored: byName(seen.Images)}
	p.stopUnwanted(wants)
	for i := range wants {
		p.judge(&wants[i])
	}
	p.choose()
	for _, j := range p.judged {
		p.step.Reports = append(p.step.Reports, j.Report)
	}
	if len(wants) > 0 {
		p.wake(lookLater)
	}
	return p.step
}

// pass is the state of a single call of Next.
type pass struct {
	before []Report
	seen   *Observed
	bounds *Bounds
	now    time.Time
	// stored are the stored images by name.
	stored map[Reference]*Image
	judged []*judged
	step   Step
}

// judged is a Want with its new report and what this call has found out about the image.
type judged struct {
	Report

	want   *Want
	policy Policy
	// held is the stored image; nil if the image is absent or unknown.
	held *Image
	// isDue means that an attempt may begin. isPulling means that a pull is in progress and not stopped.
	isDue, isPulling bool
}

// stopUnwanted stops the pulls of images that are not in wants any more. Such pulls have no report.
func (p *pass) stopUnwanted(wants []Want) {
	wanted := make(map[Reference]bool, len(wants))
	for i := range wants {
		wanted[wants[i].Image] = true
	}
	for _, pull := range p.seen.Pulls {
		if !wanted[pull.Image] && !pull.Ended && !pull.Stopping {
			p.stop(pull)
		}
	}
}

func (p *pass) stop(pull Pull) {
	p.step.Actions = append(p.step.Actions, Action{Do: Stop, Image: pull.Image, Round: pull.Round})
}

// judge updates the report of a Want from the observed images and pulls.
func (p *pass) judge(w *Want) {
	report, found := reportOf(p.before, w.Image)
	if !found || report.Round != w.Round {
		report = report.renewed(w.Round)
	}
	j := &judged{Report: report, want: w, policy: w.Policy()}
	p.judged = append(p.judged, j)
	p.look(j)
	for _, pull := range p.seen.Pulls {
		if pull.Image == w.Image && !pull.Stopping {
			p.follow(j, pull)
			return
		}
	}
	p.idle(j)
}

// look records whether the image of a Want is stored on the Node.
func (p *pass) look(j *judged) {
	if !p.seen.Listed {
		return
	}
	j.held = p.stored[j.Image]
	if j.Present = j.held != nil; j.Present {
		j.ID, j.Bytes = j.held.ID, j.held.Bytes
	}
}

// follow handles a pull in progress, and a pull that has just ended.
func (p *pass) follow(j *judged, pull Pull) {
	err := p.bounds.Registries.Allow(j.Image)
	switch isOld := pull.Round != j.Round && j.policy.Always; {
	case j.Phase.isFinal() || isOld:
		p.drop(pull)
		p.idle(j)
	case pull.Ended && pull.Err == nil:
		j.ID = cmp.Or(j.ID, pull.ID)
		j.Present = true // the runtime may list the image under another name
		p.succeed(j)
	case pull.Ended:
		p.attemptFailed(j, pull.Err)
	case err != nil:
		p.drop(pull)
		p.fail(j, err)
	case j.policy.Limit(j.Started, p.now) <= 0:
		p.drop(pull)
		p.fail(j, p.tooLong(j))
	case p.seen.Free != nil && *p.seen.Free < p.bounds.Floor:
		p.drop(pull)
		p.attemptFailed(j, p.belowFloor(j))
	default:
		p.adopt(j)
	}
}

// drop stops a pull unless the pull has ended.
func (p *pass) drop(pull Pull) {
	if !pull.Ended {
		p.stop(pull)
	}
}

// adopt records a pull in progress. A new round that takes over the running pull of an earlier round counts this pull
// as its first attempt.
func (p *pass) adopt(j *judged) {
	if j.Phase != Pulling {
		j.Phase, j.Attempts, j.Again = Pulling, max(j.Attempts, 1), time.Time{}
		if j.Started.IsZero() {
			j.Started = p.now
		}
	}
	j.isPulling = true
	p.wait(j, PullAwaited, "attempt in progress", lookSoon)
}

// idle handles a Want without a pull of the present round.
func (p *pass) idle(j *judged) {
	if j.Phase.isFinal() {
		p.settled(j)
	}
	switch err := p.bounds.Registries.Allow(j.Image); {
	case j.Phase.isFinal():
	case j.held != nil && !p.mustPull(j):
		p.succeed(j)
	case err != nil:
		p.fail(j, err)
	case j.Phase == Pulling:
		p.attemptFailed(j, reason.Reason{Code: PullRetried, Detail: "the agent ended during the pull"})
	case !p.seen.Listed:
		p.wait(j, ImagesUnknown, "the container runtime has not listed its images", lookSoon)
	case j.Again.After(p.now):
		p.wait(j, PullRetried, j.Message, j.Again.Sub(p.now))
	case j.policy.Limit(j.Started, p.now) <= 0:
		p.fail(j, p.tooLong(j))
	case j.Attempts > j.policy.retries(): // possible after the release of a claim that allowed more retries
		p.fail(j, reason.Reason{Code: PullFailed, Detail: j.Message})
	default:
		j.isDue = true
	}
}

// mustPull reports whether a present image must be pulled: the policy has Always, and the round has not succeeded
// yet.
func (p *pass) mustPull(j *judged) bool {
	if !j.policy.Always {
		return false
	}
	for _, a := range j.Answers {
		if a.Round == j.Round && a.Phase == Succeeded {
			return false
		}
	}
	return true
}

// settled handles a Want whose pull has ended. With Policy.Keep, an image that has disappeared is pulled again, after
// a wait that grows each time.
func (p *pass) settled(j *judged) {
	if !j.policy.Keep || j.Present || !p.seen.Listed || p.bounds.Registries.Allow(j.Image) != nil {
		return
	}
	lost := j.Report
	j.Report = lost.renewed(lost.Round)
	if j.Losses++; !lost.Ended.IsZero() && p.now.Sub(lost.Ended) >= steady {
		j.Losses = 1
	}
	j.Again = p.now.Add(doubled(firstLoss, longestLoss, j.Losses))
	if j.Message = lost.Message; lost.Phase == Succeeded {
		j.Message = "the image was deleted from the Node"
		p.explain(j, ImageLost, j.Message)
	}
}

// succeed records the success of a pull.
func (p *pass) succeed(j *judged) {
	j.Phase, j.Ended, j.Again, j.Message = Succeeded, p.now, time.Time{}, ""
}

// fail records the failure of a pull without further attempts.
func (p *pass) fail(j *judged, err error) {
	j.Phase, j.Ended, j.Again = Failed, p.now, time.Time{}
	code, message := reason.ForCondition(err)
	if len(reason.From(err)) == 0 {
		code = PullFailed
	}
	j.Message = text(message)
	p.explain(j, code, j.Message)
}

// attemptFailed records a failed attempt, and when the next attempt may begin.
func (p *pass) attemptFailed(j *judged, err error) {
	after, over := Retry(j.policy, j.Attempts, j.Started, p.now)
	if over || reason.IsFinal(err) {
		p.fail(j, err)
		return
	}
	_, message := reason.ForCondition(err)
	j.Phase, j.Again, j.Message = Waiting, p.now.Add(after), text(message)
	p.wait(j, PullRetried, j.Message, after)
}

func (p *pass) tooLong(j *judged) error {
	return reason.Reason{Code: PullTooLong, New: j.policy.Deadline.String(), Detail: j.Message, Remedy: "allow more time"}
}

// wait records why a pull waits, and for how long.
func (p *pass) wait(j *judged, code reason.Code, detail string, after time.Duration) {
	p.explain(j, code, detail)
	p.wake(after)
}

func (p *pass) explain(j *judged, code reason.Code, detail string) {
	p.step.Why = append(p.step.Why, reason.Reason{Code: code, New: j.Image.String(), Detail: detail})
}

// wake makes the caller call Next again after a while.
func (p *pass) wake(after time.Duration) {
	p.step.After = sooner(p.step.After, max(after, time.Millisecond))
}
