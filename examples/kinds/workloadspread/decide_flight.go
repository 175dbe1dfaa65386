package workloadspread

import (
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// own is the name of the webhook configuration that contains this manager's webhook for new Pods.
const own = "kruise-mutating-webhook-configuration"

const (
	// passes is how long the request for a new Pod may take from the choice of the subset by the mutating webhook to
	// the review by the validating webhook (the method hold), without the time for other mutating webhooks.
	passes = 5 * time.Second
	// stored is how long the request may take after all validating webhooks have answered: at most 10 s for a quota
	// and 7 s for the write. The remaining time allows for clocks that differ. If the API server tries again with
	// another generated name, the method hold reviews the Pod again.
	stored = 20 * time.Second
	// longestRequest is how long any request may last: the API server ends a request after 34 s, and a write that has
	// begun may succeed up to 7 s later.
	longestRequest = 41 * time.Second
)

// flight is how long the request for a new Pod may last: passing is the time from the choice of the subset by the
// mutating webhook to the review by the validating webhook (the method hold), and landing is the time from this
// review to the end of the request. The zero value means that the times are unknown.
type flight struct{ passing, landing time.Duration }

// total returns the time from the choice of the subset to the end of the request.
func (f flight) total() time.Duration { return min(f.passing+f.landing, longestRequest) }

// isHeld reports whether the ledger (the record of taken places in the status) contains the place of a Pod, and
// whether the place was taken so recently that no other Pod can get the place before this Pod is stored. Places of
// all versions are searched, because a label of the Pod may have changed since the choice.
func isHeld(books ledger, subset, key string, passing time.Duration, now time.Time) bool {
	for _, list := range books {
		for i := range list {
			if since, is := list[i].CreatingPods[key]; is && list[i].Name == subset && now.Sub(since.Time) < passing+time.Second { // in whole seconds
				return true
			}
		}
	}
	return false
}

// unanswered is the default timeout of a webhook (admissionregistration/v1/defaults.go).
const unanswered = 10 * time.Second

// flightOf returns how long the request for a new Pod may last after this manager's webhook has answered: the other
// mutating webhooks are called one after the other, at most twice, and the validating webhooks at the same time.
// Selectors of webhooks are ignored, so the result may be too long.
func flightOf(mutating []admissionregistrationv1.MutatingWebhookConfiguration, validating []admissionregistrationv1.ValidatingWebhookConfiguration) flight {
	inTurn, atOnce := time.Duration(0), time.Duration(0)
	for i := range mutating {
		if mutating[i].Name == own {
			continue
		}
		for j := range mutating[i].Webhooks {
			w := &mutating[i].Webhooks[j]
			if !seesNewPods(w.Rules) {
				continue
			}
			inTurn += timeout(w.TimeoutSeconds)
			if ptr.Deref(w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy) == admissionregistrationv1.IfNeededReinvocationPolicy {
				inTurn += timeout(w.TimeoutSeconds)
			}
		}
	}
	for i := range validating {
		for j := range validating[i].Webhooks {
			if w := &validating[i].Webhooks[j]; seesNewPods(w.Rules) {
				atOnce = max(atOnce, timeout(w.TimeoutSeconds))
			}
		}
	}
	return flight{passing: passes + inTurn, landing: stored + atOnce}
}

func timeout(seconds *int32) time.Duration {
	if seconds == nil {
		return unanswered
	}
	return time.Duration(*seconds) * time.Second
}

// seesNewPods reports whether the API server may call a webhook for new Pods.
func seesNewPods(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		creates := slices.Contains(rule.Operations, admissionregistrationv1.Create) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)
		core := slices.Contains(rule.APIGroups, "") || slices.Contains(rule.APIGroups, "*")
		return creates && core && slices.ContainsFunc(rule.Resources, func(resource string) bool {
			name, sub, _ := strings.Cut(resource, "/")
			return (name == "pods" || name == "*") && (sub == "" || sub == "*")
		})
	})
}
