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
	// BudgetSpent means that no more Pods serve than must serve.
	BudgetSpent reason.Code = "BudgetSpent"
	// NotCounted means that nobody has counted the Pods of the budget since the last change of its spec.
	NotCounted reason.Code = "NotCounted"
	// NoPod means that the request does not name its Pod.
	NoPod reason.Code = "NoPod"
	// TooManyLetGo means that the ledger has no room for a further Pod let go at the same time.
	TooManyLetGo reason.Code = "TooManyLetGo"
)

// Why a request is admitted without anything being spent.
const (
	// NotServing means that the Pod does not serve anyway.
	NotServing reason.Code = "NotServing"
	// NothingNeeded means that no Pod of the budget must serve.
	NothingNeeded reason.Code = "NothingNeeded"
	// LetGoAlready means that the Pod was let go a moment ago.
	LetGoAlready reason.Code = "LetGoAlready"
)

// Request is about a single Pod. The caller has checked before that the budget covers the operation and selects the
// Pod.
type Request struct {
	// Pod is the present state of the Pod that may be taken out of service. An eviction carries only the name, so read the
	// Pod. Required. The name and the UID decide, or without a UID the creationTimestamp, to the second. A Pod with
	// neither never counts as let go before.
	Pod *corev1.Pod
	// Generation is the generation of the budget's object. Required; a guard.Guard sets the field.
	Generation int64
	// Operation is the operation that would take the Pod out of service. Required.
	Operation Operation
	// OutOfService says that the Pod does not serve anyway, so nothing is lost with the Pod. Nor is with a Pod that is
	// being deleted.
	OutOfService bool
	// Gated says that a readiness gate takes the Pod out of service before the operation, and puts the Pod back
	// afterwards: the requester is the controller that keeps the gate. Then the Pod's share ends when the Pod serves
	// again. Without a gate the Pod's Ready tells nothing until its Node has seen the change.
	Gated bool
}

// Decision is the answer to a Request.
type Decision struct {
	// Admitted says that the Pod may be taken out of service.
	Admitted bool
	// Changed says that the ledger has changed and must be stored before the Pod is let go.
	Changed bool
	// Reason says why the request is refused, or why nothing was spent. Reason has no code if something was spent.
	Reason reason.Reason
}

// Decide answers a request, and returns the ledger to store if Decision.Changed is true, otherwise the given ledger. A
// Pod let go a moment ago is let go again at no cost, so a caller that asks before its request causes no second write
// when a webhook asks about the request. Later the Pod's time begins anew, unless fewer Pods serve than must serve: the
// Pod may serve again. A Pod that was to go and did not is not let go again if the budget is spent. Somebody else may
// refuse the Pod, such as a PodDisruptionBudget, and a client that tries again and again would hold the Pod's share for
// ever.
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
	case r.Pod.DeletionTimestamp != nil:
		return free(NotServing, "the Pod is being deleted")
	case r.Generation <= 0:
		return refuse(NoGeneration, "the request needs the generation of the budget's object", "")
	case ledger.ObservedGeneration < r.Generation:
		return refuse(NotCounted, "the Pods of the budget have not been counted yet", "try again in a moment")
	case ledger.Need <= 0:
		return free(NothingNeeded, "no Pod has to serve")
	}
	switch again, justNow := p.isLetGo(ledger, r, now); {
	case justNow:
		return free(LetGoAlready, "the Pod was let go a moment ago")
	case again && (ledger.Allowed > 0 || ledger.Current >= ledger.Need && !p.isStuck(ledger, r, now)):
		_, decision := free(LetGoAlready, "the Pod was let go a moment ago")
		decision.Changed = true
		return ledger.letGo(r, now), decision
	}
	switch {
	case ledger.Allowed <= 0:
		serve := min(ledger.Current, ledger.Need) // without the Pods let go since the count
		return refuse(BudgetSpent, fmt.Sprintf("%d of %d Pods serve, and %d have to", serve, ledger.Expected, ledger.Need), "wait until others serve")
	case len(ledger.Leaving)+len(ledger.Changing) >= p.MaxEntries:
		return refuse(TooManyLetGo, fmt.Sprintf("%d Pods were let go in the last seconds", p.MaxEntries), "wait until some of them are gone")
	}
	ledger.Allowed--
	return ledger.letGo(r, now), Decision{Admitted: true, Changed: true}
}

// letGo returns the ledger with the Pod written down.
func (l Ledger) letGo(r Request, now time.Time) Ledger {
	since := metav1.NewTime(now.Truncate(time.Second)) // the precision of the API
	l.Identities = maps.Clone(l.Identities)
	if delete(l.Identities, r.Pod.Name); r.Pod.UID != "" {
		l.Identities = with(l.Identities, r.Pod.Name, Identity{UID: r.Pod.UID, Created: r.Pod.CreationTimestamp, Generation: r.Pod.Generation, Gated: r.Gated})
	}
	if r.Operation.leaves() {
		l.Leaving = with(maps.Clone(l.Leaving), r.Pod.Name, since)
		return l
	}
	l.Changing = with(maps.Clone(l.Changing), r.Pod.Name, since)
	return l
}

// isLetGo reports whether exactly this Pod is written down and counts as away. justNow says that enough of the Pod's
// time is left for the operation. For a deletion or eviction, half of the time must be left: the counter sees the event
// within the half. For a change, nine tenths must be left, because the Pod's node must report the change first, and the
// Pod must not have changed since: the entry would end with the earlier change. So it would with a change by a gate, in
// place of one without.
func (p Policy) isLetGo(ledger Ledger, r Request, now time.Time) (is, justNow bool) {
	leaving, changing := p.rest(ledger, r, now)
	if justNow = leaving > 0 && leaving >= p.LeavingFor/2; !r.Operation.leaves() {
		was, known := ledger.Identities[r.Pod.Name]
		justNow = changing > 0 && changing >= p.ChangingFor/10*9 && (!known || was.Generation == r.Pod.Generation && (r.Gated || !was.Gated))
	}
	return leaving > 0 || changing > 0, justNow
}

// isStuck reports whether a Pod to be deleted was let go before, only for a deletion, and did not go.
func (p Policy) isStuck(ledger Ledger, r Request, now time.Time) bool {
	leaving, changing := p.rest(ledger, r, now)
	return r.Operation.leaves() && leaving > 0 && changing <= 0
}

// rest is the time for which a Pod still counts as away, for a deletion and for a change. Times have whole seconds: of
// Pods without identity, a Pod created in the second of the entry may be a successor of the same name, and needs its
// own entry.
func (p Policy) rest(ledger Ledger, r Request, now time.Time) (leaving, changing time.Duration) {
	m := MemberOf(r.Pod, false)
	was, known := ledger.Identities[m.Name]
	same := known && was.UID == m.UID
	of := func(list map[string]metav1.Time, lasts time.Duration) time.Duration {
		wait, _ := ledger.left(list, m, lasts, now)
		if since := list[m.Name]; !same && (m.Created.IsZero() || !m.Created.Before(&since)) {
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
