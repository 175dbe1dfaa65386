package workloadspread

import (
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// own is the name of the configuration of this manager's webhook for new Pods.
const own = "kruise-mutating-webhook-configuration"

// stored is how long the request for a new Pod may last after all webhooks have answered: quotas, and the write. The
// API server waits up to 10 s for a quota and 7 s for the write; if a request takes longer than stored, a subset may
// get a Pod too many.
const stored = 8 * time.Second

// unanswered is the default timeout of a webhook (admissionregistration/v1/defaults.go).
const unanswered = 10 * time.Second

// longestFlight returns how long the request for a new Pod may last after this manager's webhook has answered: other
// mutating webhooks are called one after the other, at most twice each, and validating webhooks at the same time. The
// selectors of webhooks are ignored, so the result may be too long.
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
