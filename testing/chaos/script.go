package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Step is a step of a schedule that was played.
type Step struct {
	// N is the step's number, from 1. The seed and N together determine the step. Earlier steps affect the step only
	// through the state that they leave, in which some choices may be impossible.
	N int
	// Calm is true for a step without faults.
	Calm bool
}

// Script lists the steps to play, in order.
type Script []Step

// Full returns the first n steps.
func Full(n int) Script {
	s := make(Script, n)
	for i := range s {
		s[i].N = i + 1
	}
	return s
}

// String returns the format of ParseScript, such as "1-12,15c,40".
func (s Script) String() string {
	var parts []string
	for i := 0; i < len(s); {
		j := i + 1
		for j < len(s) && s[j].N == s[j-1].N+1 && s[j].Calm == s[i].Calm {
			j++
		}
		part := strconv.Itoa(s[i].N)
		if j-i > 1 {
			part += "-" + strconv.Itoa(s[j-1].N)
		}
		if s[i].Calm {
			part += "c"
		}
		parts = append(parts, part)
		i = j
	}
	return strings.Join(parts, ",")
}

// maxStep is the largest number of a step. A longer schedule would be of no use to a reader.
const maxStep = 1_000_000

// ParseScript reads steps and ranges of steps, separated by commas. The letter c after a step means that the step is
// played without faults. Numbers must be positive and ascending.
func ParseScript(text string) (Script, error) {
	var out Script
	last := 0
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		body, calm := strings.CutSuffix(part, "c")
		from, to, isRange := strings.Cut(body, "-")
		first, err := strconv.Atoi(from)
		end := first
		if err == nil && isRange {
			end, err = strconv.Atoi(to)
		}
		if err != nil || first <= last || end < first || end > maxStep {
			return nil, fmt.Errorf("script %q: %q is no step or range of steps above %d and up to %d", text, part, last, maxStep)
		}
		for n := first; n <= end; n++ {
			out = append(out, Step{N: n, Calm: calm})
		}
		last = end
	}
	return out, nil
}

// Shrink returns a part of the script that still fails, with few steps and few faults. Shrink calls fails at most
// plays times. fails must return true for the whole script.
func Shrink(s Script, plays int, fails func(Script) bool) Script {
	try := func(candidate Script) bool {
		if plays <= 0 {
			return false
		}
		plays--
		return fails(candidate)
	}
	s = slices.Clone(s)
	for again := true; again && plays > 0; {
		before := len(s)
		for size := max(1, len(s)/2); size >= 1; size /= 2 {
			// The last steps are needed least often, so they are left out first.
			for end := len(s); end > 0; end -= size {
				start := max(0, end-size)
				if candidate := slices.Concat(s[:start], s[min(end, len(s)):]); end <= len(s) && try(candidate) {
					s = candidate
				}
			}
		}
		again = len(s) < before
	}
	return calmed(s, try)
}

// calmed removes the faults from as many steps as possible: from all steps at once if the script then still fails, or
// else from one step after another.
func calmed(s Script, fails func(Script) bool) Script {
	all := slices.Clone(s)
	for i := range all {
		all[i].Calm = true
	}
	if fails(all) {
		return all
	}
	for i := range s {
		if s[i].Calm {
			continue
		}
		candidate := slices.Clone(s)
		candidate[i].Calm = true
		if fails(candidate) {
			s = candidate
		}
	}
	return s
}
