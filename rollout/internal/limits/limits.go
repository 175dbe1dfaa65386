// Package limits answers "how do the plans of a rollout say why a step is not larger?" for package rollout and its
// subpackages numbered and pernode.
package limits

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/workloadkit/workloadkit/reason"
)

// NotSelectedRemedy is the remedy for Pods that the selector of their workload does not match.
const NotSelectedRemedy = "give them the labels that the selector asks for, " +
	"or have somebody else control or delete them"

// Noted collects the reasons why a step is not larger.
type Noted struct{ Limits reason.List }

// Limitf adds a reason.
func (n *Noted) Limitf(code reason.Code, path, remedy, format string, args ...any) {
	n.Limits = append(n.Limits,
		reason.Reason{Code: code, Path: path, Detail: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Negative adds a reason if the number n is below zero.
func Negative(problems *reason.List, code reason.Code, path string, n int) {
	if n < 0 {
		*problems = append(*problems,
			reason.Reason{Code: code, Path: path, New: strconv.Itoa(n), Remedy: "use 0 or more"})
	}
}

// Paths has the same fields as rollout.Paths, so that values can be converted.
type Paths struct {
	Partition, MaxUnavailable, MaxSurge, ScaleMaxUnavailable, Paused, Parallel string
}

// OrDefaults returns the paths with a default in place of each empty path.
func (p Paths) OrDefaults() Paths {
	return Paths{
		Partition:           cmp.Or(p.Partition, "partition"),
		MaxUnavailable:      cmp.Or(p.MaxUnavailable, "maxUnavailable"),
		MaxSurge:            cmp.Or(p.MaxSurge, "maxSurge"),
		ScaleMaxUnavailable: cmp.Or(p.ScaleMaxUnavailable, "scaleStrategy.maxUnavailable"),
		Paused:              cmp.Or(p.Paused, "paused"),
		Parallel:            cmp.Or(p.Parallel, "podManagementPolicy"),
	}
}
