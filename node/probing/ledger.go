package probing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// ledgerJSON contains the marks that each probe has set on a Pod, by the probe's name. The ledger is stored as JSON
// in an annotation of the Pod, and is written in the same request as labels and annotations.
type ledgerJSON map[string]heldMarks

// heldMarks are the marks that a probe has set, with their values.
type heldMarks struct {
	Labels      map[string]string       `json:"labels,omitempty"`
	Annotations map[string]string       `json:"annotations,omitempty"`
	Condition   corev1.PodConditionType `json:"condition,omitempty"`
}

// isZero reports whether the probe has set no mark.
func (h heldMarks) isZero() bool {
	return len(h.Labels) == 0 && len(h.Annotations) == 0 && h.Condition == ""
}

// ledgerOf returns the ledger of a Pod, empty if the Pod has none. The error names the annotation.
func (b *Book) ledgerOf(pod *corev1.Pod) (ledgerJSON, error) {
	raw := pod.Annotations[b.annotations.Ledger]
	if raw == "" {
		return ledgerJSON{}, nil
	}
	ledger := ledgerJSON{}
	if err := json.Unmarshal([]byte(raw), &ledger); err != nil {
		return ledgerJSON{}, fmt.Errorf("metadata.annotations[%s]: %w", b.annotations.Ledger, err)
	}
	return ledger, nil
}

// encode returns the annotation; empty for an empty ledger. Equal ledgers have equal texts, because JSON sorts keys.
func (l ledgerJSON) encode() string {
	if len(l) == 0 {
		return ""
	}
	// json.Marshal never fails for maps of strings.
	raw, _ := json.Marshal(l)
	return string(raw)
}

// Holds reports whether a ledger of the given Pods contains marks of a Marker, or the given entries contain probes of
// the Marker. The finalizer of a deleted Marker may be removed when Holds is false for all Pods and Nodes. Pods that
// have ended or are being deleted do not count.
func (b *Book) Holds(namespace, marker string, entries []Entry, pods []*corev1.Pod) bool {
	for _, e := range entries {
		if e.Namespace == namespace && slices.ContainsFunc(e.Probes, func(p Assigned) bool { return isOf(p.Name, marker) }) {
			return true
		}
	}
	for _, pod := range pods {
		if pod.Namespace != namespace || !podstate.IsActive(pod) {
			continue
		}
		ledger, err := b.ledgerOf(pod)
		if err != nil {
			continue // the ledger cannot be parsed, so no mark of the Pod can be removed
		}
		for name := range maps.Keys(ledger) {
			if isOf(name, marker) {
				return true
			}
		}
	}
	return false
}

// isOf reports whether a probe name belongs to a Marker. isOf compares whole names: a Marker a does not own the
// probes of a Marker xa.
func isOf(name, marker string) bool {
	of, _, ok := splitName(name)
	return ok && of == marker
}
