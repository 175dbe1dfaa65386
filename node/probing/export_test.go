package probing

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// JoinName returns the name of a probe in entries and reports.
func JoinName(marker, probe string) string { return joinName(marker, probe) }

// SplitName returns the Marker and the probe in such a name.
func SplitName(name string) (marker, probe string, ok bool) { return splitName(name) }

// CheckOf returns the check of a probe.
func CheckOf(probe *corev1.Probe, podIP string) (Check, error) { return checkOf(probe, podIP) }

// Spread returns the earliest time of a probe's first run.
func Spread(slot Slot, started time.Time, period time.Duration) time.Time {
	return spread(slot, started, period)
}
