package disruption

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Why a request is refused.
const (
	// BudgetSpent means that as few Pods serve as have to.
	BudgetSpent reason.Code = "BudgetSpent"
	// NotCounted means that nobody has counted the Pods of the budget yet.
	NotCounted reason.Code = "NotCounted"
	// NoPod means that the request does not say which Pod it is about.
	NoPod reason.Code = "NoPod"
	// TooManyLetGo means that so many Pods were let go at a time that no more are written down.
	TooManyLetGo reason.Code = "TooManyLetGo"
)

// Why a request is admitted without anything being spent.
const (
	// NotServing means that the Pod does not serve anyway.
	NotServing reason.Code = "NotServing"
	// NothingNeeded means that no Pod of the budget has to serve.
	NothingNeeded reason.Code = "NothingNeeded"
	// LetGoAlready means that the Pod was let go a moment ago.
	LetGoAlready reason.Code = "LetGoAlready"
)

// Request is about one Pod. Whether a budget covers the operation, and is for the Pod at all, has been found out before.
type Request struct {
	// Pod is the one that may be taken out of service, as it is now: an eviction names it only, so read it. Required; its name and its
	// creationTimestamp decide. One without the latter is never taken for a Pod that was let go before.
	Pod *corev1.Pod
	// Operation is what would do so. Required.
	Operation Operation
	// OutOfService says that the Pod does not serve anyway, so that nothing is lost with it.
	OutOfService bool
}

// Decision is the answer to a Request.
type Decision struct {
	// Admitted says that the Pod may be taken out of service.
	Admitted bool
	// Changed says that the ledger has changed and must be stored before the Pod is let go.
	Changed bool
	// Reason says why it is refused, or why nothing was spent. It has no code where something was.
	Reason reason.Reason
}

// Decide answers a request, and returns the ledger to store where Decision.Changed is true; otherwise it is the one that was given. A
// Pod that was let go a moment ago is let go once more for nothing: who has asked before sending a request causes no second write when a webhook asks
// about the request. Later it has its time anew. A Pod that was to go and did not is not let go once more where nothing is left: somebody else refuses
// it, as a PodDisruptionBudget may, and those who try again and again would keep what it holds from everybody.
func (p Policy) Decide(ledger Ledger, r Request, now time.Time) (Ledger, Decision) {
	p = p.complete()
	free := func(code reason.Code, detail string) (Ledger, Decision) {
		return ledger, Decision{Admitted: true, Reason: r.reason(code, detail, "")}
	}
	refuse := func(code reason.Code, detail, remedy string) (Ledger, Decision) {
		return ledger, Decision{Reason: r.reason(code, detail, remedy)}
	}
	switch {
	case r.Pod == nil || r.Pod.Name == "":
		return refuse(NoPod, "", "")
	case !r.Operation.isKnown():
		return refuse(UnknownOperation, fmt.Sprintf("%q", r.Operation), "")
	case r.OutOfService:
		return free(NotServing, "the Pod does not serve")
	case !ledger.Counted:
		return refuse(NotCounted, "the Pods of the budget have not been counted yet", "try again in a moment")
	case ledger.Need <= 0:
		return free(NothingNeeded, "no Pod has to serve")
	}
	switch again, justNow := p.isLetGo(ledger, r, now); {
	case justNow:
		return free(LetGoAlready, "the Pod was let go a moment ago")
	case again && (ledger.Allowed > 0 || !p.isStuck(ledger, r, now)):
		_, decision := free(LetGoAlready, "the Pod was let go a moment ago")
		decision.Changed = true
		return ledger.letGo(r, now), decision
	}
	switch {
	case ledger.Allowed <= 0:
		serve := min(ledger.Current, ledger.Need) // those that were let go since the count are not among them
		return refuse(BudgetSpent, fmt.Sprintf("%d of %d Pods serve, and %d have to", serve, ledger.Expected, ledger.Need), "wait until others serve")
	case len(ledger.Leaving)+len(ledger.Changing) >= p.MaxEntries:
		return refuse(TooManyLetGo, fmt.Sprintf("%d Pods were let go in the last seconds", p.MaxEntries), "wait until some of them are gone")
	}
	ledger.Allowed--
	return ledger.letGo(r, now), Decision{Admitted: true, Changed: true}
}

// letGo returns the ledger with the Pod written down.
func (l Ledger) letGo(r Request, now time.Time) Ledger {
	since := metav1.NewTime(now.Truncate(time.Second)) // what the API keeps of it
	if r.Operation.leaves() {
		l.Leaving = with(maps.Clone(l.Leaving), r.Pod.Name, since)
		return l
	}
	l.Changing = with(maps.Clone(l.Changing), r.Pod.Name, since)
	return l
}

// isLetGo reports whether this very Pod is written down, and counts as away; justNow says that enough of its time is left for what it is let go
// for now: half of it to go, of which who counts sees the event, and nine tenths to be changed, which its node has to tell of first.
func (p Policy) isLetGo(ledger Ledger, r Request, now time.Time) (is, justNow bool) {
	leaving, changing := p.rest(ledger, r, now)
	if justNow = leaving > 0 && leaving >= p.LeavingFor/2; !r.Operation.leaves() {
		justNow = changing > 0 && changing >= p.ChangingFor/10*9
	}
	return leaving > 0 || changing > 0, justNow
}

// isStuck reports whether a Pod that is to go was to go before, for nothing else, and did not.
func (p Policy) isStuck(ledger Ledger, r Request, now time.Time) bool {
	leaving, changing := p.rest(ledger, r, now)
	return r.Operation.leaves() && leaving > 0 && changing <= 0
}

// rest is for how long a Pod counts as away, to be deleted and to be changed. Times have whole seconds: one that was created in the second in which
// its name was written down may be a successor, and has to be let go by itself.
func (p Policy) rest(ledger Ledger, r Request, now time.Time) (leaving, changing time.Duration) {
	m := Member{Name: r.Pod.Name, Created: r.Pod.CreationTimestamp}
	if m.Created.IsZero() {
		return 0, 0
	}
	of := func(list map[string]metav1.Time, lasts time.Duration) time.Duration {
		wait, _ := left(list, m, lasts, now)
		if since := list[m.Name]; !m.Created.Before(&since) {
			return 0
		}
		return wait
	}
	return of(ledger.Leaving, p.LeavingFor), of(ledger.Changing, p.ChangingFor)
}

func (r *Request) reason(code reason.Code, detail, remedy string) reason.Reason {
	why := reason.Reason{Code: code, Detail: detail, Remedy: remedy}
	if r.Pod != nil {
		why.Object = reason.ObjectOf("Pod", r.Pod)
	}
	return why
}
