package workloadspread

import (
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// own is the configuration of this manager's webhook for new Pods.
const own = "kruise-mutating-webhook-configuration"

// stored is how long the request of a new Pod may last after the answers of all webhooks: quotas, and the write. A
// quota may take 10 s and the write 7 s before the API server gives up; a request slower than stored may make a subset
// a Pod too large.
const stored = 8 * time.Second

// unanswered is the timeout of a webhook without a number (admissionregistration/v1/defaults.go).
const unanswered = 10 * time.Second

// longestFlight returns how long the request of a new Pod may last after the answer of this manager's webhook: further
// mutating webhooks are asked in turn, a second time at most, and validating webhooks at the same time. Selectors of
// webhooks are left out, so the time may be too long.
func longestFlight(mutating []admissionregistrationv1.MutatingWebhookConfiguration, validating []admissionregistrationv1.ValidatingWebhookConfiguration) time.Duration {
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
	return stored + inTurn + atOnce
}

func timeout(seconds *int32) time.Duration {
	if seconds == nil {
		return unanswered
	}
	return time.Duration(*seconds) * time.Second
}

// seesNewPods reports whether a webhook may be asked about new Pods.
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
