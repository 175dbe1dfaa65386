// Package ordinals answers "which numbers do Pods have, with a start and reserved ranges?" for workloads with numbered
// Pods, like a StatefulSet.
//
// With a start, a number of replicas and reserved numbers, the Pods are start, start+1, ... without the reserved
// numbers, up to the number of replicas. [Of] computes the ordinals as a [Set] of intervals, so a reserved range of a
// million costs as much as a reserved number. [Name] makes a Pod's name of an ordinal, [ParseName] and [OfPod] go back.
//
// Package rollout/numbered decides the actions for the ordinals (create, delete, update): give the Set to its Plan.
//
// All functions are pure. A Set never changes and is safe for concurrent use. The zero value is empty. [Set.IsZero]
// tells the zero value from a set computed for no replicas, so a forgotten error does not read as "no Pods are wanted".
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
	// InvalidOrdinal means that a reserved ordinal, a range, a start or a number of replicas cannot be read, is negative
	// or runs backwards. Leave such a workload as is: with an empty list instead, Pods would be created and deleted.
	InvalidOrdinal reason.Code = "InvalidOrdinal"
	// OrdinalOverflow means that there are not enough numbers: the last Pod would get a number above Max.
	OrdinalOverflow reason.Code = "OrdinalOverflow"
)

// Max is the largest ordinal, the largest int32 in an API.
const Max = math.MaxInt32

// Set is a set of ordinals, kept as intervals: the cost depends on the number of intervals, not of ordinals. Of and
// ParseSet make a Set.
type Set struct {
	spans []span
}

// span is an interval including both ends. before counts the set's elements in front of the interval.
type span struct {
	first, last, before int
}

// ParseSet reads a list of single ordinals and ranges including both ends: 1, "7", "3-7". Entries may overlap and come
// in any order. Leading zeros are accepted, as in OpenKruise: "0003-005" is 3, 4, 5. [Of] reads its list with ParseSet.
// Call ParseSet if only the list matters, for example for validation.
//
// path is the path of the list, for the error alone. The error is a reason.List with an InvalidOrdinal for each bad
// entry, and the Set is then the zero Set. O(n log n).
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

// Paths are the places of Of's numbers in an API, such as spec.replicas, for errors. Reserved is the path of the list.
type Paths struct{ Start, Replicas, Reserved string }

// Of returns the ordinals of a workload's Pods: the first replicas numbers from start on without the reserved numbers.
// Reserved numbers below start have no effect, and entries of reserved may overlap and come in any order, as for
// ParseSet.
//
// paths are for the error alone. The error is a reason.List: InvalidOrdinal for each bad entry, for a start outside of
// the ordinals and for a negative number of replicas; OrdinalOverflow, at the path of the replicas, when the numbers
// run out. The Set is then the zero Set. O(n log n) for n entries, for any number of replicas.
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

// free returns the first replicas numbers from start on outside of the set. path is the path of the replicas.
func (s Set) free(path string, start, replicas int) (Set, error) {
	reserved := s.spans[s.from(start):]
	spans := make([]span, 0, min(len(reserved)+1, replicas)) // not nil: the set was computed
	want := min(int64(replicas), Max+1)                      // there are no more numbers; 64 bits hold the sums below on every platform
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

// IsZero reports whether the set is the zero value, never returned by Of or ParseSet without an error. Their set for no
// replicas or no entries is empty and not zero.
func (s Set) IsZero() bool { return s.spans == nil }

// Len returns how many ordinals are in the set.
func (s Set) Len() int {
	if len(s.spans) == 0 {
		return 0
	}
	last := s.spans[len(s.spans)-1]
	return last.before + last.last - last.first + 1
}

// Contains reports whether the ordinal is in the set. O(log n) for n intervals, no allocation.
func (s Set) Contains(ordinal int) bool {
	_, ok := s.Index(ordinal)
	return ok
}

// Index returns the number of the set's ordinals below the given ordinal, which is its rank counted from 0, and whether
// the ordinal is in the set. O(log n) for n intervals, no allocation.
func (s Set) Index(ordinal int) (int, bool) {
	return s.index(s.from(ordinal), ordinal)
}

// index is Index for a known span i, the first that does not end below the ordinal.
func (s Set) index(i, ordinal int) (int, bool) {
	if i == len(s.spans) {
		return s.Len(), false
	}
	if at := s.spans[i]; ordinal >= at.first {
		return at.before + ordinal - at.first, true
	}
	return s.spans[i].before, false
}

// Ascending returns a function with the answers of Index. The function takes less time for ascending ordinals: each
// search begins at the last found span. The function is not safe for concurrent use. No allocation for each call.
func (s Set) Ascending() func(ordinal int) (int, bool) {
	i := 0 // all spans in front of i end below the last ordinal
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

// At returns the ordinal of rank n, counted from 0, and false when there is none: At(0) is the lowest. O(log n) for n
// intervals, no allocation.
func (s Set) At(n int) (int, bool) {
	if n < 0 || n >= s.Len() {
		return 0, false
	}
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].before > n }) - 1
	return s.spans[i].first + n - s.spans[i].before, true
}

// All iterates over the ordinals in ascending order, the order of creation of Pods.
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

// Backward iterates over the ordinals in descending order, the order of deletion and update of Pods.
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

// String renders the set for people: "0,2-4". The empty set is "".
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

// within is from for an index known to be from low to high.
func (s Set) within(low, high, ordinal int) int {
	for low < high { // sort.Search would call a function for each step
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

// merge sorts, joins overlapping or touching spans, and counts. merge works in place.
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
