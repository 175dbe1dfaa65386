package imagepull

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Phase is the progress of a pull.
type Phase string

const (
	// Waiting means that no pull is in progress: the next attempt waits.
	Waiting Phase = "Waiting"
	// Pulling means that a pull is in progress.
	Pulling Phase = "Pulling"
	// Succeeded means that the image was pulled, or was present already.
	Succeeded Phase = "Succeeded"
	// Failed means that the image could not be pulled, and that no attempt is left.
	Failed Phase = "Failed"
)

// isFinal reports whether the phase is the result of a round.
func (p Phase) isFinal() bool { return p == Succeeded || p == Failed }

// Report is an agent's record about an image.
type Report struct {
	// Image is the name of the image.
	Image Reference
	// Round is the round of the Want to which the report belongs.
	Round int64
	// Phase is the progress of the round's pull.
	Phase Phase
	// Present means that the image was stored on the Node when the agent last listed the images.
	Present bool
	// Attempts is the number of attempts that have begun since Started.
	Attempts int
	// Started is the start of the first attempt. Ended is the time of the success or of the final failure. Again is
	// the earliest time of the next attempt. Each is zero if not yet known, or if there is no such time.
	Started, Ended, Again time.Time
	// Losses counts, with Policy.Keep, how often in a row the image has disappeared or all attempts have failed. A
	// loss at least a day after the end of the previous pull counts as the first loss.
	Losses int
	// ID is the image's ID in the container runtime. Bytes is the size in bytes; 0 if unknown.
	ID    string
	Bytes uint64
	// Message explains the last failure, in at most 512 bytes.
	Message string
	// Answers are the results of earlier rounds: the newest success and the newest failure.
	Answers []Answer
}

// Answer is the result of a round's pull.
type Answer struct {
	Round int64
	// Phase is Succeeded or Failed.
	Phase Phase
	// Ended is when the pull ended.
	Ended time.Time
	// Message explains a failure.
	Message string
}

// reportOf finds the report about an image.
func reportOf(reports []Report, image Reference) (Report, bool) {
	i := slices.IndexFunc(reports, func(r Report) bool { return r.Image == image })
	if i < 0 {
		return Report{Image: image}, false
	}
	return reports[i], true
}

// answer returns the result for a claim with the given Claim.Round. A success has precedence over a failure.
func (r *Report) answer(round int64) (best Answer, answered bool) {
	for _, a := range r.all() {
		if a.Round >= round && (!answered || a.Phase == Succeeded || best.Phase == Failed) {
			best, answered = a, true
		}
	}
	return best, answered
}

// all returns the results of earlier rounds, followed by the result of the present round if its pull has ended.
func (r *Report) all() []Answer {
	out := slices.Clone(r.Answers)
	if r.Phase.isFinal() {
		out = append(out, Answer{Round: r.Round, Phase: r.Phase, Ended: r.Ended, Message: r.Message})
	}
	return out
}

// newest keeps the newest success and the newest failure.
func newest(all []Answer) (out []Answer) {
	for _, phase := range []Phase{Succeeded, Failed} {
		var best *Answer
		for i := range all {
			if a := &all[i]; a.Phase == phase && (best == nil || a.Round >= best.Round) {
				best = a
			}
		}
		if best != nil {
			out = append(out, *best)
		}
	}
	return out
}

// renewed returns the first report of a new round; r is the last report of the earlier round.
func (r *Report) renewed(round int64) Report {
	return Report{
		Image: r.Image, Round: round, Phase: Waiting, Present: r.Present, Losses: r.Losses, ID: r.ID, Bytes: r.Bytes, Answers: newest(r.all()),
	}
}

// These are limits for reports: Merge limits larger numbers or removes their reports, and cuts longer texts.
const (
	longestText = 512
	mostBytes   = 1 << 50 // 1 PiB
	mostCount   = 1 << 20
	mostReasons = 16
)

// Merge checks reports, which a Node may have forged, and adds them to the recorded reports. The result has at most
// one report for each Want, in the order of the wants. Merge ignores a report if the image is not wanted, if the
// round has not begun, or if the round is earlier than the recorded round. The recorded report about the image, if
// valid, is then part of the result. why has at most 16 reasons. Times in the future become the present, and texts
// are cut.
//
// Agents call Merge before they write the Node's object. Controllers call Merge with nil for recorded when they read
// the Node's object.
func Merge(wants []Want, recorded, reports []Report, now time.Time) (merged []Report, why reason.List) {
	known := make(map[Reference]int64, len(wants))
	for _, w := range wants {
		known[w.Image] = w.Round
	}
	byImage := map[Reference]Report{}
	for _, r := range recorded {
		if round, wanted := known[r.Image]; wanted && r.problem(round) == "" {
			byImage[r.Image] = r.checked(now)
		}
	}
	seen := map[Reference]bool{}
	for _, r := range reports {
		round, wanted := known[r.Image]
		problem := r.problem(round)
		before, isKnown := byImage[r.Image]
		switch {
		case !wanted:
			problem = "nobody wants the image"
		case seen[r.Image]:
			problem = "a second report about the image"
		case problem == "" && isKnown && r.Round < before.Round:
			problem = "a later round is recorded already"
		}
		if problem != "" {
			if len(why) < mostReasons {
				why = append(why, reason.Reason{Code: ReportRefused, New: r.Image.String(), Detail: problem})
			}
			continue
		}
		seen[r.Image] = true
		after := r.checked(now)
		if isKnown {
			after.Answers = newest(slices.Concat(before.earlier(&after), after.Answers))
		}
		byImage[r.Image] = after
	}
	for _, w := range wants {
		if r, found := byImage[w.Image]; found {
			merged = append(merged, r)
		}
	}
	return merged, why
}

// earlier returns the results in a recorded report, without a result that the later report repeats.
func (r *Report) earlier(later *Report) []Answer {
	if r.Round == later.Round && r.Phase == later.Phase {
		return r.Answers
	}
	return r.all()
}

// problem returns the reason why the values of a report are impossible; empty if the values are possible.
func (r *Report) problem(round int64) string {
	switch {
	case r.Round < 0 || r.Round > round:
		return "round " + strconv.FormatInt(r.Round, 10) + " has not begun yet"
	case !r.Phase.isFinal() && r.Phase != Waiting && r.Phase != Pulling:
		return "the phase is unknown"
	}
	return ""
}

// checked limits all values of a report.
func (r *Report) checked(now time.Time) Report {
	out := *r
	out.Attempts, out.Losses = min(max(r.Attempts, 0), mostCount), min(max(r.Losses, 0), mostCount)
	out.Started, out.Ended = past(r.Started, now), past(r.Ended, now)
	if latest := now.Add(longestLoss); r.Again.After(latest) {
		out.Again = latest
	}
	out.Message = text(r.Message)
	if out.ID = r.ID; len(r.ID) > longestText || text(r.ID) != r.ID {
		out.ID = ""
	}
	if r.Bytes > mostBytes {
		out.Bytes = 0
	}
	var answers []Answer
	for _, a := range r.Answers[:min(len(r.Answers), mostReasons)] {
		if a.Phase.isFinal() && a.Round >= 0 && a.Round <= r.Round {
			a.Ended, a.Message = past(a.Ended, now), text(a.Message)
			answers = append(answers, a)
		}
	}
	out.Answers = newest(answers)
	return out
}

func past(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// text makes a text from a Node or a registry fit for an event: valid UTF-8 on one line, at most 512 bytes.
func text(s string) string {
	s = strings.ToValidUTF8(reason.Shorten(s, longestText-len("...")), "?")
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return ' '
		}
		return c
	}, s)
	return reason.Shorten(s, longestText-len("..."))
}
