package probing

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// JoinName, SplitName, CheckOf and Spread are for tests of the details.

func JoinName(marker, probe string) string { return joinName(marker, probe) }

func SplitName(name string) (marker, probe string, ok bool) { return splitName(name) }

func CheckOf(probe *corev1.Probe, podIP string) (Check, error) { return checkOf(probe, podIP) }

func Spread(slot Slot, started time.Time, period time.Duration) time.Time {
	return spread(slot, started, period)
}
