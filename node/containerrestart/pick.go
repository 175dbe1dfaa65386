package containerrestart

import (
	"cmp"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Progress is the recorded progress of a request.
type Progress uint8

// These are the values of Progress; the request with the highest value is handled first.
const (
	// New requests have no recorded progress.
	New Progress = iota
	// Waiting requests were recorded in an earlier reconcile, and wait for other requests.
	Waiting
	// Begun requests are in progress.
	Begun
)

// Candidate is an unfinished request for a Pod, as far as Pick needs the request.
type Candidate struct {
	// Object is the request.
	Object reason.Object
	// Created is when the request was created.
	Created time.Time
	// Progress is the recorded progress.
	Progress Progress
	// HasDeadline means that the request has a deadline, so the request certainly ends.
	HasDeadline bool
	// Why are the reasons of the request's last step, if known.
	Why reason.List
}

// Wait is a request that waits for another request.
type Wait struct {
	// Index is the request's index in the list of candidates.
	Index int
	Why   reason.Reason
}

// Pick returns the index of the request to handle now, and the waiting requests in the order of handling. Only one
// request for a Pod is handled at a time: first a request in progress, then requests recorded in an earlier
// reconcile, then new requests. Among requests with equal progress, the oldest comes first. The reason of every Wait
// names the request being handled with its reasons, and says whether this request may never end. If there are no
// candidates, next is -1.
func Pick(candidates []Candidate) (next int, waiting []Wait) {
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := candidates[i], candidates[j]
		return cmp.Or(cmp.Compare(b.Progress, a.Progress), a.Created.Compare(b.Created),
			cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Object.UID, b.Object.UID))
	})
	if len(order) == 0 {
		return -1, nil
	}
	for _, i := range order[1:] {
		waiting = append(waiting, Wait{Index: i, Why: behind(candidates[order[0]])})
	}
	return order[0], waiting
}

// inFront is the largest number of reasons of the request being handled that the reason of a Wait repeats.
const inFront = 2

// behind returns the reason why requests wait for another request.
func behind(first Candidate) reason.Reason {
	why := reason.Reason{Code: BehindRequest, Object: first.Object, Detail: "goes first", Remedy: "wait for the end of " + first.Object.String()}
	if !first.HasDeadline {
		why.Detail = "goes first, and has no deadline"
		why.Remedy = "wait for the end of " + first.Object.String() + ", or delete it"
	}
	if len(first.Why) > 0 {
		why.Detail += " (" + first.Why.Summary(inFront) + ")"
	}
	return why
}
