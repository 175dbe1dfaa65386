package imagepull

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Owner identifies a job that wants images on Nodes, for example by the job's UID.
type Owner string

// Want is an image wanted on a Node, with the Claims of all jobs that want the image.
type Want struct {
	// Image is the name of the image.
	Image Reference
	// Round is the number of the present pull of the image, counted per Node. Reports with other numbers are about
	// earlier pulls.
	Round int64
	// Claims are the claims of all owners, each owner once.
	Claims []Claim
	// Bytes is the expected size of the image in bytes; 0 if unknown.
	Bytes uint64
}

// Claim says that one job wants an image.
type Claim struct {
	// Owner is the job.
	Owner Owner
	// Round is the first round whose result is also the result for the claim. If an API has no field for this number,
	// use the Want's Round: then every claim waits for the result of the present round.
	Round int64
	// Since is when the claim was made.
	Since time.Time
	// Policy contains the limits for the pull, and says how long the claim is kept.
	Policy Policy
}

// Policy returns the policy of the present round: the longest times and the most attempts of all claims.
// Policy.Always has an effect only in claims that began the present round.
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
	// mostRounds is a number that claims never reach. A higher round number must come from a forged report.
	mostRounds = math.MaxInt64 / 2
)

// AddClaim adds a claim for an image to the wants of a Node, and returns the wants in the order of the images' names.
// The caller sets the claim's Owner, Since and Policy, and AddClaim sets the claim's Round. The claim begins a new
// round if the policy says Always, if the present round has failed, or if the present round has succeeded and the
// image is not present any more. If the owner already has a claim for the image, AddClaim replaces the policy, and
// begins a new round only if the new policy has Always and the old policy has not. reports may contain reports about
// other images. The error has the code TooManyImages or InvalidImage.
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
			w.Round = report.Round + 1 // a report about an earlier Want must not count as a result for the claim
		}
		i, out = len(out), append(out, w)
	}
	if !out[i].add(claim, reported && report.Round == out[i].Round && report.isSpent()) {
		return wants, tooMany("the image has "+strconv.Itoa(MostClaims)+" claims", image)
	}
	slices.SortStableFunc(out, func(a, b Want) int { return compare(a.Image, b.Image) })
	return out, nil
}

// add adds or changes a claim. The result is false if the Want already has MostClaims claims.
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

// isSpent reports whether a new claim needs a new round: the pull has failed, or the pulled image is not present any
// more.
func (r *Report) isSpent() bool { return r.Phase == Failed || r.Phase == Succeeded && !r.Present }

func tooMany(detail string, image Reference) error {
	return reason.Reason{Code: TooManyImages, New: image.String(), Detail: detail, Remedy: "end other jobs first"}
}

// compare orders images by their full names.
func compare(a, b Reference) int {
	return cmp.Or(cmp.Compare(a.registry, b.registry), cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
}

// Release removes all claims of an owner except the claims for the images in kept, and removes Wants without claims.
// After a change of a job's image, pass the new image in kept.
func Release(wants []Want, owner Owner, kept ...Reference) []Want {
	return filter(wants, func(w *Want, c *Claim) bool { return c.Owner != owner || slices.Contains(kept, w.Image) })
}

// filter returns the wants with only the claims for which keep returns true, and without Wants that have no claims
// left.
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

// Sweep removes the claims of owners that do not exist any more, and the claims whose TTL has passed. A TTL begins
// with the result of the pull, or when the claim becomes Silent: see Judge. exists must return true if the existence
// of an owner is unknown. after is the time until the next TTL passes; 0 for never. reports must come from Merge.
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
			// The time of the pull's end comes from the Node, which may be hostile. So the time counts only if it
			// lies between the start of the claim and now.
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
