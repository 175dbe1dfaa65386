package probing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// ledgerJSON is the list of marks set on a Pod by each probe, by the probe's name. The Pod keeps the ledger as JSON in an
// annotation, in the same write as the marks.
type ledgerJSON map[string]heldMarks

// heldMarks are the marks set by a probe.
type heldMarks struct {
	Labels      map[string]string       `json:"labels,omitempty"`
	Annotations map[string]string       `json:"annotations,omitempty"`
	Condition   corev1.PodConditionType `json:"condition,omitempty"`
}

// isZero reports whether the probe holds no mark.
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
	// Maps of strings always marshal.
	raw, _ := json.Marshal(l)
	return string(raw)
}

// Holds reports whether probes of a Marker hold marks of the Pod, or stand in the given entries. When neither Pods nor
// Nodes hold a deleted Marker, the Marker's finalizer may be removed. Pods that have ended, or that are being deleted,
// hold nothing.
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
			continue // damaged: nothing can be taken back
		}
		for name := range maps.Keys(ledger) {
			if isOf(name, marker) {
				return true
			}
		}
	}
	return false
}

// isOf compares the whole name of the Marker: a Marker a does not own the probes of a Marker xa.
func isOf(name, marker string) bool {
	of, _, ok := splitName(name)
	return ok && of == marker
}
