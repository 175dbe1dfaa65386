package imagepull

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Owner identifies a job that claims images, for example by the job's UID.
type Owner string

// Want is an image wanted on a Node, with all claims.
type Want struct {
	// Image is the name of the image.
	Image Reference
	// Round is the number of the present pull. Reports of other rounds are about earlier pulls.
	Round int64
	// Claims are the claims of all owners, each owner once.
	Claims []Claim
	// Bytes is the expected size of the image in bytes; 0 if unknown.
	Bytes uint64
}

// Claim says who wants an image.
type Claim struct {
	// Owner is the job.
	Owner Owner
	// Round is the first round that answers the claim. If an API has no field for the number, use the Want's Round:
	// then the answer of every claim waits for the present round.
	Round int64
	// Since is when the claim was made.
	Since time.Time
	// Policy says how the claim's owner wants the image pulled.
	Policy Policy
}

// Policy returns the policy of the present round: the most patient values of all claims. Always counts only for claims
// that began the present round.
func (w *Want) Policy() Policy {
	if len(w.Claims) == 0 {
		return Policy{}
	}
	out := w.Claims[0].Policy.with(w.Claims[0].Policy)
	for _, c := range w.Claims {
		out = out.with(c.Policy)
	}
	out.Always = slices.ContainsFunc(w.Claims, func(c Claim) bool { return c.Policy.Always && c.Round == w.Round })
	return out
}

// These are the largest numbers in a Node's object, so that the object stays far below the API server's limit.
const (
	// MostImages is the largest number of wanted images.
	MostImages = 1024
	// MostClaims is the largest number of claims for an image.
	MostClaims = 64
	// mostRounds is above every round reached by claims. Higher rounds come from hostile reports.
	mostRounds = math.MaxInt64 / 2
)

// AddClaim adds a claim for an image to the wants of a Node, and returns the wants in the order of the images' names.
// The caller sets the claim's Owner, Since and Policy, and AddClaim sets the claim's Round. The claim begins a new
// round if the policy says Always, if the present round has failed, or if the present round has succeeded and the image
// is not present any more. If the owner has a claim for the image already, only the policy is replaced, and only a new
// Always begins a new round. reports may contain reports about other images. The error is a TooManyImages or an
// InvalidImage.
func AddClaim(wants []Want, reports []Report, image Reference, claim Claim) ([]Want, error) {
	if image.IsZero() {
		return wants, reason.Reason{Code: InvalidImage, Detail: "the claim of " + string(claim.Owner) + " names no image"}
	}
	report, reported := reportOf(reports, image)
	i := slices.IndexFunc(wants, func(w Want) bool { return w.Image == image })
	out := slices.Clone(wants)
	if i < 0 {
		if len(wants) >= MostImages {
			return wants, tooMany("the Node has "+strconv.Itoa(len(wants))+" images", image)
		}
		w := Want{Image: image}
		if reported && report.Round >= 0 && report.Round < mostRounds {
			w.Round = report.Round + 1 // an old report must not answer the claim
		}
		i, out = len(out), append(out, w)
	}
	if !out[i].add(claim, reported && report.Round == out[i].Round && report.isSpent()) {
		return wants, tooMany("the image has "+strconv.Itoa(MostClaims)+" claims", image)
	}
	slices.SortStableFunc(out, func(a, b Want) int { return compare(a.Image, b.Image) })
	return out, nil
}

// add adds or changes a claim, and reports whether there was room.
func (w *Want) add(claim Claim, spent bool) bool {
	w.Claims = slices.Clone(w.Claims)
	i := slices.IndexFunc(w.Claims, func(c Claim) bool { return c.Owner == claim.Owner })
	switch {
	case i < 0 && len(w.Claims) >= MostClaims:
		return false
	case i < 0:
		if spent || claim.Policy.Always && len(w.Claims) > 0 {
			w.Round++
		}
		claim.Round = w.Round
		w.Claims = append(w.Claims, claim)
	case claim.Policy.Always && !w.Claims[i].Policy.Always:
		w.Round++
		claim.Round = w.Round
		w.Claims[i] = claim
	default:
		w.Claims[i].Policy = claim.Policy
	}
	return true
}

// isSpent says whether the round of a report cannot answer a new claim.
func (r *Report) isSpent() bool { return r.Phase == Failed || r.Phase == Succeeded && !r.Present }

func tooMany(detail string, image Reference) error {
	return reason.Reason{Code: TooManyImages, New: image.String(), Detail: detail, Remedy: "end other jobs first"}
}

// compare orders images by their full names.
func compare(a, b Reference) int {
	return cmp.Or(cmp.Compare(a.registry, b.registry), cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
}

// Release removes all claims of an owner except the claims for kept images, and removes images without claims. Use kept
// when a job's image has changed.
func Release(wants []Want, owner Owner, kept ...Reference) []Want {
	return filter(wants, func(w *Want, c *Claim) bool { return c.Owner != owner || slices.Contains(kept, w.Image) })
}

// filter keeps some claims, and removes images without claims.
func filter(wants []Want, keep func(*Want, *Claim) bool) []Want {
	var out []Want
	for _, w := range wants {
		var claims []Claim
		for _, c := range w.Claims {
			if keep(&w, &c) {
				claims = append(claims, c)
			}
		}
		if w.Claims = claims; len(claims) > 0 {
			out = append(out, w)
		}
	}
	return out
}

// Sweep drops the claims of owners that do not exist any more, and the claims with a TTL that has passed since the
// answer, or since the claim became Silent: see Judge. If exists cannot find out, exists must return true. after is the time until the next TTL passes; 0 for never. reports
// must come from Merge.
func Sweep(wants []Want, reports []Report, exists func(Owner) bool, now time.Time) (left []Want, after time.Duration) {
	left = filter(wants, func(w *Want, c *Claim) bool {
		if !exists(c.Owner) {
			return false
		}
		if c.Policy.TTL == nil {
			return true
		}
		report, _ := reportOf(reports, w.Image)
		ended, hasEnd := c.silentAt(&report)
		hasEnd = hasEnd && !c.Since.IsZero()
		if answer, answered := report.answer(c.Round); answered {
			// The time of the answer comes from the Node, so the time is checked.
			if ended, hasEnd = answer.Ended, true; ended.Before(c.Since) {
				ended = c.Since
			}
			ended = past(ended, now)
		}
		if !hasEnd {
			return true
		}
		wait := ended.Add(*c.Policy.TTL).Sub(now)
		if wait > 0 {
			after = sooner(after, wait)
		}
		return wait > 0
	})
	return left, after
}

// sooner returns the shorter of two waits; 0 means never.
func sooner(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	default:
		return min(a, b)
	}
}
