package containerrestart

import (
	"cmp"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Progress is the recorded progress of a request.
type Progress uint8

// The progress of a request, in the order of the turn: the last comes first.
const (
	// New requests have no record.
	New Progress = iota
	// Waiting requests have been seen, and wait for their turn.
	Waiting
	// Begun requests are under way.
	Begun
)

// Candidate is a request for a Pod, without a recorded end.
type Candidate struct {
	// Object is the request.
	Object reason.Object
	// Created is the time of the request's creation.
	Created time.Time
	// Progress is the recorded progress.
	Progress Progress
	// HasDeadline says that the request ends by itself at some time.
	HasDeadline bool
	// Why are the reasons of the request's last step, if known.
	Why reason.List
}

// Wait is a request that waits for its turn.
type Wait struct {
	// Index is the place in the list of candidates.
	Index int
	Why   reason.Reason
}

// Pick returns the place of the request whose turn it is, and the waiting requests in their order. A Pod has a single
// request at a time: first requests under way, then known ones, then new ones, and of these the oldest. Every wait
// names the request in front with its reasons, and says if the request in front may never end. Without candidates next
// is -1.
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

// inFront is how many reasons of the request in front a reason repeats.
const inFront = 2

// behind says why requests wait.
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
