// Package ordinals answers "which numbers do Pods have, with a start and reserved ranges?" for workloads with numbered
// Pods, like a StatefulSet.
//
// Given a start, a number of replicas and reserved numbers, the Pods' ordinals are start, start+1, ... without the
// reserved numbers, until there are as many as replicas. [Of] computes the ordinals as a [Set] of intervals, so a
// reserved range of a million numbers costs as much as a single reserved number. [Name] makes a Pod's name from an
// ordinal; [ParseName] and [OfPod] return the ordinal of a name.
//
// Package rollout/numbered decides which Pods to create, delete and update: pass the Set to its Plan.
//
// All functions are pure. A Set never changes and is safe for concurrent use. The zero value is empty. [Set.IsZero]
// distinguishes the zero value from the set for zero replicas, so that a caller who ignores an error does not delete
// all Pods.
package ordinals

import (
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// InvalidOrdinal means that a reserved ordinal, a range, a start or a number of replicas cannot be parsed or is
	// negative, or a range ends before its start. Do not change such a workload's Pods: treating the list as empty would
	// create and delete Pods.
	InvalidOrdinal reason.Code = "InvalidOrdinal"
	// OrdinalOverflow means that the last Pod would get an ordinal above Max.
	OrdinalOverflow reason.Code = "OrdinalOverflow"
)

// Max is the largest ordinal: the largest int32.
const Max = math.MaxInt32

// Set is a set of ordinals, stored as intervals: the cost of operations depends on the number of intervals, not of
// ordinals. Of and ParseSet make a Set.
type Set struct {
	spans []span
}

// span is an interval that includes both ends. before is the number of the set's ordinals below the interval.
type span struct {
	first, last, before int
}

// ParseSet parses a list of single ordinals and ranges that include both ends: 1, "7", "3-7". Entries may overlap and
// come in any order. Leading zeros are accepted, as in OpenKruise: "0003-005" is 3, 4, 5. [Of] calls ParseSet for its
// list. Call ParseSet directly if only the list matters, for example in a validating webhook.
//
// path is the path of the list in the API object, used only in errors. The error is a reason.List with an
// InvalidOrdinal for each invalid entry, and the Set is then the zero Set. ParseSet takes O(n log n).
func ParseSet(path string, entries []intstr.IntOrString) (Set, error) {
	var problems reason.List
	spans := make([]span, 0, len(entries))
	for i := range entries {
		s, problem := parseSpan(&entries[i])
		if problem != "" {
			problems = append(problems, reason.Reason{
				Code: InvalidOrdinal, Path: path + "[" + strconv.Itoa(i) + "]",
				New: strconv.Quote(reason.Shorten(entries[i].String(), 40)), Detail: problem,
				Remedy: `use an integer from 0 to 2147483647, or a range of two such as "3-7"`,
			})
			continue
		}
		spans = append(spans, s)
	}
	if len(problems) > 0 {
		return Set{}, problems
	}
	return Set{merge(spans)}, nil
}

// Paths are the field paths of Of's arguments in the API object, such as spec.replicas, for errors. Reserved is the
// path of the list of reserved ordinals.
type Paths struct{ Start, Replicas, Reserved string }

// Of returns the ordinals of a workload's Pods: the first numbers from start on that are not reserved, as many as
// replicas. Reserved numbers below start have no effect, and entries of reserved may overlap and come in any order, as
// for ParseSet.
//
// paths are used only in errors. The error is a reason.List: InvalidOrdinal for each invalid entry, for a start below 0
// or above Max and for a negative number of replicas; OrdinalOverflow, at the path of the replicas, if there are not
// enough ordinals up to Max. The Set is then the zero Set. Of takes O(n log n) for n entries, for any number of
// replicas.
func Of(paths Paths, start, replicas int, reserved ...intstr.IntOrString) (Set, error) {
	skip, err := ParseSet(paths.Reserved, reserved)
	problems := reason.From(err)
	if start < 0 || start > Max {
		problems = append(problems, reason.Reason{Code: InvalidOrdinal, Path: paths.Start, New: strconv.Itoa(start), Detail: "no ordinal to start from", Remedy: "use 0 to 2147483647"})
	}
	if replicas < 0 {
		problems = append(problems, reason.Reason{Code: InvalidOrdinal, Path: paths.Replicas, New: strconv.Itoa(replicas), Detail: "no number of replicas", Remedy: "use 0 or more"})
	}
	if len(problems) > 0 {
		return Set{}, problems
	}
	return skip.free(paths.Replicas, start, replicas)
}

// free returns the first numbers from start on that are not in the set, as many as replicas. path is the path of the
// replicas, for errors.
func (s Set) free(path string, start, replicas int) (Set, error) {
	reserved := s.spans[s.from(start):]
	spans := make([]span, 0, min(len(reserved)+1, replicas)) // not nil: nil would mean the zero value
	// There are no ordinals above Max; int64 holds the sums below on every platform.
	want := min(int64(replicas), Max+1)
	next, have := start, 0
	gap := func(last int) {
		if last = int(min(int64(last), int64(next)+want-int64(have)-1)); last >= next {
			spans = append(spans, span{next, last, have})
			have += last - next + 1
		}
	}
	for _, r := range reserved {
		if int64(have) == want {
			break
		}
		gap(r.first - 1)
		next = max(next, r.last+1)
	}
	gap(Max)
	if have < replicas {
		return Set{}, reason.List{{
			Code: OrdinalOverflow, Path: path, New: strconv.Itoa(replicas),
			Detail: "only " + strconv.Itoa(have) + " ordinals are free from " + strconv.Itoa(start) + " on",
			Remedy: "lower the start or the replicas, or reserve fewer",
		}}
	}
	return Set{spans}, nil
}

// IsZero reports whether the set is the zero value; Of and ParseSet return the zero value only together with an error.
// The set for zero replicas or zero entries is empty, but IsZero is false.
func (s Set) IsZero() bool { return s.spans == nil }

// Len returns the number of ordinals in the set.
func (s Set) Len() int {
	if len(s.spans) == 0 {
		return 0
	}
	last := s.spans[len(s.spans)-1]
	return last.before + last.last - last.first + 1
}

// Contains reports whether the ordinal is in the set. Contains takes O(log n) for n intervals, and does not allocate.
func (s Set) Contains(ordinal int) bool {
	_, ok := s.Index(ordinal)
	return ok
}

// Index returns the rank of the ordinal, which is the number of the set's ordinals below the given ordinal, and whether
// the ordinal is in the set. Index takes O(log n) for n intervals, and does not allocate.
func (s Set) Index(ordinal int) (int, bool) {
	return s.index(s.from(ordinal), ordinal)
}

// index returns the result of Index. The argument i is the index of the first span that does not end below the
// ordinal.
func (s Set) index(i, ordinal int) (int, bool) {
	if i == len(s.spans) {
		return s.Len(), false
	}
	if at := s.spans[i]; ordinal >= at.first {
		return at.before + ordinal - at.first, true
	}
	return s.spans[i].before, false
}

// Ascending returns a function with the same results as Index. The function is faster if called with ascending
// ordinals: each search begins at the span found last. The function is not safe for concurrent use. A call does not
// allocate.
func (s Set) Ascending() func(ordinal int) (int, bool) {
	i := 0 // all spans before i end below the last ordinal
	return func(ordinal int) (int, bool) {
		if i > 0 && s.spans[i-1].last >= ordinal {
			i = 0
		}
		low, high := i, i
		for step := 1; high < len(s.spans) && s.spans[high].last < ordinal; step *= 2 {
			low, high = high+1, high+step
		}
		i = s.within(low, min(high, len(s.spans)), ordinal)
		return s.index(i, ordinal)
	}
}

// At returns the ordinal of rank n, counted from 0, and false if the set has no such ordinal: At(0) is the lowest. At
// takes O(log n) for n intervals, and does not allocate.
func (s Set) At(n int) (int, bool) {
	if n < 0 || n >= s.Len() {
		return 0, false
	}
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].before > n }) - 1
	return s.spans[i].first + n - s.spans[i].before, true
}

// All iterates over the ordinals in ascending order, in which Pods are created.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, at := range s.spans {
			for ordinal := at.first; ordinal <= at.last; ordinal++ {
				if !yield(ordinal) {
					return
				}
			}
		}
	}
}

// Backward iterates over the ordinals in descending order, in which Pods are deleted and updated.
func (s Set) Backward() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, at := range slices.Backward(s.spans) {
			for ordinal := at.last; ordinal >= at.first; ordinal-- {
				if !yield(ordinal) {
					return
				}
			}
		}
	}
}

// String formats the set for display: "0,2-4". The empty set is "".
func (s Set) String() string {
	var b strings.Builder
	for i, at := range s.spans {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(at.first))
		if at.last > at.first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(at.last))
		}
	}
	return b.String()
}

// from returns the index of the first span that does not end below the ordinal.
func (s Set) from(ordinal int) int { return s.within(0, len(s.spans), ordinal) }

// within searches like from, but only between low and high.
func (s Set) within(low, high, ordinal int) int {
	for low < high { // a loop is faster than sort.Search, which would call a function for each step
		if middle := (low + high) / 2; s.spans[middle].last >= ordinal {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

func parseSpan(entry *intstr.IntOrString) (span, string) {
	if entry.Type == intstr.Int {
		if entry.IntVal < 0 {
			return span{}, "negative"
		}
		return span{first: int(entry.IntVal), last: int(entry.IntVal)}, ""
	}
	low, high, isRange := strings.Cut(entry.StrVal, "-")
	if !isRange {
		high = low
	}
	first, ok1 := digits(low)
	last, ok2 := digits(high)
	switch {
	case !ok1 || !ok2:
		return span{}, "not an ordinal or range"
	case first > last:
		return span{}, "the range runs backwards"
	}
	return span{first: first, last: last}, ""
}

// merge sorts the spans, joins spans that overlap or touch, and sets before. merge modifies the slice in place.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.first - b.first })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, s.last)
			continue
		}
		out = append(out, s)
	}
	count := 0
	for i := range out {
		out[i].before = count
		count += out[i].last - out[i].first + 1
	}
	return out
}
