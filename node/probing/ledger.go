package probing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// Ledger is the list of marks set on a Pod by each probe, by the probe's name. The Pod keeps the Ledger as JSON in an
// annotation, in the same write as the marks.
type Ledger map[string]Held

// Held are the marks set by a probe.
type Held struct {
	Labels      map[string]string       `json:"labels,omitempty"`
	Annotations map[string]string       `json:"annotations,omitempty"`
	Condition   corev1.PodConditionType `json:"condition,omitempty"`
}

// IsZero reports whether the probe holds no mark.
func (h Held) IsZero() bool {
	return len(h.Labels) == 0 && len(h.Annotations) == 0 && h.Condition == ""
}

// LedgerOf returns the Ledger of a Pod, empty if the Pod has none. The error names the annotation.
func (b *Book) LedgerOf(pod *corev1.Pod) (Ledger, error) {
	raw := pod.Annotations[b.annotations.Ledger]
	if raw == "" {
		return Ledger{}, nil
	}
	ledger := Ledger{}
	if err := json.Unmarshal([]byte(raw), &ledger); err != nil {
		return Ledger{}, fmt.Errorf("metadata.annotations[%s]: %w", b.annotations.Ledger, err)
	}
	return ledger, nil
}

// encode returns the annotation; empty for an empty Ledger. Equal Ledgers have equal texts, because JSON sorts keys.
func (l Ledger) encode() string {
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
		ledger, err := b.LedgerOf(pod)
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
	of, _, ok := SplitName(name)
	return ok && of == marker
}
