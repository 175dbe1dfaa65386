package imagepull

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// respond is the time that an agent has for the first report about a claim, and for the last report after the claim's
// deadline (as in OpenKruise, pkg/controller/nodeimage).
const respond = 10 * time.Minute

// State is the state of a job's claim on a Node.
type State string

const (
	// Unclaimed means that the job has no claim on the Node.
	Unclaimed State = "Unclaimed"
	// Active means that the claim waits for the end of the pull.
	Active State = "Active"
	// Silent means that no agent has reported about the claim within ten minutes, or within ten minutes after the
	// deadline of the claim. Plan counts a ready Node as failed, and waits for the report of a Node that is not ready.
	Silent State = "Silent"
	// Done means that the image was pulled, or was present already.
	Done State = "Done"
	// Broken means that the image could not be pulled.
	Broken State = "Broken"
)

// Standing is the state of a job's claim on a Node, with details.
type Standing struct {
	State State
	// After is the time until the state becomes Silent if the Node's agent does not report any more; 0 for never.
	After time.Duration
	// Why explains a Silent or Broken state; the code is empty for the other states.
	Why reason.Reason
}

// Judge returns the state of an owner's claim for an image on a Node. reports must come from Merge. Judge does not
// use times written by the Node, so a hostile Node can only delay the result until the claim's deadline.
func Judge(wants []Want, reports []Report, image Reference, owner Owner, now time.Time) Standing {
	claim, found := claimOf(wants, image, owner)
	if !found {
		return Standing{State: Unclaimed}
	}
	report, _ := reportOf(reports, image)
	if answer, answered := report.answer(claim.Round); answered {
		if answer.Phase == Succeeded {
			return Standing{State: Done}
		}
		return Standing{State: Broken, Why: reason.Reason{Code: PullFailed, New: image.String(), Detail: text(answer.Message), Remedy: "see the messages of the Node's agent"}}
	}
	at, ends := claim.silentAt(&report)
	if !ends {
		return Standing{State: Active}
	}
	if wait := at.Sub(now); wait > 0 {
		return Standing{State: Active, After: wait}
	}
	detail := "no report about the claim within " + respond.String()
	if claim.isReported(&report) {
		detail = "no end of the pull within " + claim.Policy.Deadline.String()
	}
	return Standing{State: Silent, Why: reason.Reason{Code: AgentSilentOnNode, New: image.String(), Detail: detail, Remedy: "see whether the agent of the Node runs"}}
}

// isReported reports whether an agent has reported about the claim.
func (c *Claim) isReported(report *Report) bool { return report.Phase != "" && report.Round >= c.Round }

// silentAt returns the time when a claim without a result becomes Silent; ok is false for never.
func (c *Claim) silentAt(report *Report) (at time.Time, ok bool) {
	switch {
	case !c.isReported(report):
		return c.Since.Add(respond), true
	case c.Policy.Deadline != nil:
		return c.Since.Add(*c.Policy.Deadline + respond), true
	}
	return time.Time{}, false
}

func claimOf(wants []Want, image Reference, owner Owner) (Claim, bool) {
	for _, w := range wants {
		if w.Image != image {
			continue
		}
		for _, c := range w.Claims {
			if c.Owner == owner {
				return c, true
			}
		}
	}
	return Claim{}, false
}

// mostNamed is the largest number of names in a message.
const mostNamed = 3

// Condition returns a condition of the given type that says whether all wanted images are present on a Node. The
// status is True with the reason "ImagesPresent" if all images are present, or if there are no wants. The status is
// False if a reported image is absent, and Unknown if the only missing images were never reported; both have the
// reason ImageAbsent and a message with the names. generation becomes observedGeneration. reports must come from
// Merge.
func Condition(kind string, generation int64, wants []Want, reports []Report) metav1.Condition {
	out := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "ImagesPresent", ObservedGeneration: generation}
	var absent []string
	for i := range wants {
		report, reported := reportOf(reports, wants[i].Image)
		switch {
		case reported && report.Present:
			continue
		case !reported && out.Status == metav1.ConditionTrue:
			out.Status = metav1.ConditionUnknown
		case reported:
			out.Status = metav1.ConditionFalse
		}
		absent = append(absent, wants[i].Image.String())
	}
	if len(absent) > 0 {
		out.Reason, out.Message = string(ImageAbsent), "not present: "+names(absent)
	}
	return out
}

// names lists at most mostNamed names, and the number of further names.
func names(all []string) string {
	out := ""
	for i, name := range all {
		if i == mostNamed {
			return out + " and " + strconv.Itoa(len(all)-i) + " more"
		}
		if i > 0 {
			out += ", "
		}
		out += name
	}
	return out
}
