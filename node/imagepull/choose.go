package imagepull

import (
	"math"
	"strconv"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// room has the amounts of Bounds that are still available for new pulls.
type room struct {
	pulls int
	// bytes is the part of Bounds.Bytes that is not used yet. free is the free disk above Bounds.Floor.
	bytes, free uint64
}

// choose begins those due pulls for which the Bounds leave enough room.
func (p *pass) choose() {
	left := p.room()
	for _, j := range p.judged {
		if !j.isDue {
			continue
		}
		if code, detail, after := p.obstacle(j, &left); code != "" {
			p.wait(j, code, detail, after)
			continue
		}
		p.begin(j)
		left.take(j.size())
		left.pulls--
	}
}

// room returns the bounds minus the amounts used by stored images and pulls in progress.
func (p *pass) room() room {
	left := room{pulls: max(p.bounds.Pulls, 1), bytes: math.MaxUint64, free: math.MaxUint64}
	if p.bounds.Bytes > 0 {
		left.bytes = p.bounds.Bytes
	}
	if p.seen.Free != nil && p.bounds.Floor > 0 {
		left.free = minus(*p.seen.Free, p.bounds.Floor)
	}
	for _, j := range p.judged {
		switch {
		case j.isPulling:
			left.take(j.size())
			left.pulls--
		case j.Present:
			left.bytes = minus(left.bytes, j.size())
		}
	}
	for _, a := range p.step.Actions { // a pull that is being stopped counts until its end
		if a.Do == Stop {
			left.pulls--
		}
	}
	for _, pull := range p.seen.Pulls {
		if pull.Stopping {
			left.pulls--
		}
	}
	return left
}

func (r *room) take(size uint64) { r.bytes, r.free = minus(r.bytes, size), minus(r.free, size) }

// minus subtracts without going below 0.
func minus(a, b uint64) uint64 { return a - min(a, b) }

// size returns the expected size of an image; 0 if unknown.
func (j *judged) size() uint64 { return max(j.Bytes, j.want.Bytes) }

// obstacle returns the reason why an attempt that is due cannot begin; the code is empty if the attempt can begin. An
// image of unknown size counts as one byte, so the image is not pulled if a bound is used up completely.
func (p *pass) obstacle(j *judged, left *room) (code reason.Code, detail string, after time.Duration) {
	size := max(j.size(), 1)
	closed := p.bounds.Window.Wait(p.now)
	switch {
	case closed > 0:
		return WindowClosed, "pulls begin again in " + closed.Round(time.Second).String(), closed
	case left.pulls <= 0:
		return PullsReached, "at most " + strconv.Itoa(max(p.bounds.Pulls, 1)) + " at the same time", lookSoon
	case left.bytes < size && !j.Present:
		return BytesReached, "at most " + strconv.FormatUint(p.bounds.Bytes, 10) + " bytes", lookLater
	case p.bounds.Floor > 0 && p.seen.Free == nil:
		return DiskBelowFloor, "the free disk is unknown", lookSoon
	case left.free < size:
		return DiskBelowFloor, p.floor(), lookLater
	}
	return "", "", 0
}

func (p *pass) belowFloor(j *judged) error {
	return reason.Reason{Code: DiskBelowFloor, New: j.Image.String(), Detail: p.floor(), Remedy: "free disk on the Node"}
}

func (p *pass) floor() string {
	return strconv.FormatUint(*p.seen.Free, 10) + " bytes are free, and " + strconv.FormatUint(p.bounds.Floor, 10) + " must stay free"
}

// begin begins an attempt.
func (p *pass) begin(j *judged) {
	if j.Started.IsZero() {
		j.Started = p.now
	}
	j.Phase, j.Again, j.Message = Pulling, time.Time{}, ""
	j.Attempts++
	p.step.Actions = append(p.step.Actions, Action{Do: Start, Image: j.Image, Round: j.Round, Limit: j.policy.Limit(j.Started, p.now)})
	p.wake(lookSoon)
}
