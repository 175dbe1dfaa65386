package disruption

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a request is refused.
const (
	// BudgetSpent means that no Pod can be spared: no more Pods are in service than the budget requires.
	BudgetSpent reason.Code = "BudgetSpent"
	// NotCounted means that the controller has not counted the budget's Pods since the last change of the budget's
	// spec.
	NotCounted reason.Code = "NotCounted"
	// NoPod means that the request does not name its Pod.
	NoPod reason.Code = "NoPod"
	// TooManyLetGo means that the ledger is full: requests for Policy.MaxEntries Pods were admitted and still count.
	TooManyLetGo reason.Code = "TooManyLetGo"
)

// These are reasons why a request is admitted without spending from the budget.
const (
	// NotServing means that the Pod is out of service already.
	NotServing reason.Code = "NotServing"
	// NothingNeeded means that the budget requires no Pod in service.
	NothingNeeded reason.Code = "NothingNeeded"
	// LetGoAlready means that an earlier request for the same Pod was admitted a moment ago.
	LetGoAlready reason.Code = "LetGoAlready"
)

// Request asks to take a single Pod out of service. Decide does not check whether the budget covers the operation and
// selects the Pod: the caller must check both before.
type Request struct {
	// Pod is the present state of the Pod that may be taken out of service. An eviction request carries only the
	// Pod's name, so the caller must read the Pod. Required. The Pod is identified by name and UID, or without a UID
	// by name and creationTimestamp, to the second. If a Pod has neither UID nor creationTimestamp, every request
	// counts as the first request for the Pod.
	Pod *corev1.Pod
	// Generation is the generation of the budget's object. Required; guard.Guard sets the field.
	Generation int64
	// Operation is the operation that would take the Pod out of service. Required.
	Operation Operation
	// OutOfService says that the Pod is out of service already, so its loss costs the budget nothing. The same holds
	// for a Pod that is being deleted.
	OutOfService bool
	// Gated says that a readiness gate takes the Pod out of service before the operation and puts the Pod back
	// afterwards: the requester is the controller that owns the gate. The Pod then stops counting against the budget
	// as soon as the Pod is in service again. Without a gate, a Pod's Ready condition may still be True after the
	// change, until the kubelet has observed the change.
	Gated bool
}

// Decision says whether a Request is admitted.
type Decision struct {
	// Admitted says that the requester may take the Pod out of service.
	Admitted bool
	// Changed says that the ledger has changed and must be stored before the request is answered.
	Changed bool
	// Reason says why the request is refused, or why the request spent nothing from the budget. Reason has no code if
	// the request spent from the budget.
	Reason reason.Reason
}

// Decide answers a request, and returns the ledger to store if Decision.Changed is true, otherwise the given ledger.
// If a request for a Pod was admitted a moment ago, a second request for the Pod costs nothing and changes nothing.
// So a controller can call Decide before its own request, although a webhook calls Decide again for this request.
// Some seconds later, the Pod may be in service again: a second request then renews the time of the Pod's entry in
// the ledger, and is refused if fewer Pods are in service than required. If the deletion of a Pod was admitted but
// did not happen in time, a second request is refused while the budget is spent. Otherwise, if a PodDisruptionBudget,
// for example, refused the deletion, a client that retries again and again would keep the budget spent for ever.
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
		serve := min(ledger.Current, ledger.Need) // Current excludes Pods whose requests were admitted since the count
		return refuse(BudgetSpent, fmt.Sprintf("%d of %d Pods serve, and %d have to", serve, ledger.Expected, ledger.Need), "wait until others serve")
	case len(ledger.Leaving)+len(ledger.Changing) >= p.MaxEntries:
		return refuse(TooManyLetGo, fmt.Sprintf("%d Pods were let go in the last seconds", p.MaxEntries), "wait until some of them are gone")
	}
	ledger.Allowed--
	return ledger.letGo(r, now), Decision{Admitted: true, Changed: true}
}

// letGo returns the ledger with an entry for the Pod of an admitted request.
func (l Ledger) letGo(r Request, now time.Time) Ledger {
	since := metav1.NewTime(now.Truncate(time.Second)) // API times have whole seconds
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

// isLetGo reports whether the ledger has an entry for exactly this Pod that still counts against the budget. justNow
// says that enough of the entry's time is left for the operation. For a deletion or eviction, half of the time must
// be left, because the counting controller must see the deletion within the remaining time. For a change, nine tenths
// must be left, because the Pod's node must report the change first. The Pod must also be unchanged since the entry
// was made. Otherwise Count may remove the entry at the end of the earlier change, before the new change has ended.
// For the same reason, an entry of a change with a gate does not cover a change without a gate.
func (p Policy) isLetGo(ledger Ledger, r Request, now time.Time) (is, justNow bool) {
	leaving, changing := p.rest(ledger, r, now)
	if justNow = leaving > 0 && leaving >= p.LeavingFor/2; !r.Operation.leaves() {
		was, known := ledger.Identities[r.Pod.Name]
		justNow = changing > 0 && changing >= p.ChangingFor/10*9 && (!known || was.Generation == r.Pod.Generation && (r.Gated || !was.Gated))
	}
	return leaving > 0 || changing > 0, justNow
}

// isStuck reports whether a deletion of the Pod was admitted some seconds ago and still counts, although the Pod
// exists.
func (p Policy) isStuck(ledger Ledger, r Request, now time.Time) bool {
	leaving, changing := p.rest(ledger, r, now)
	return r.Operation.leaves() && leaving > 0 && changing <= 0
}

// rest returns how long the Pod's entries still count against the budget: leaving is for an admitted deletion or
// eviction, and changing for an admitted change. Times have whole seconds: if the entry has no identity, and the Pod
// was created in the same second as the entry, the entry may belong to an earlier Pod of the same name, so the Pod
// needs an entry of its own.
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
