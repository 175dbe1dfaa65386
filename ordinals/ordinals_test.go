package ordinals_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
)

func Example() {
	reserved := []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("5-7")}
	set, err := ordinals.Of(ordinals.Paths{Reserved: "spec.reserveOrdinals"}, 0, 5, reserved...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ordinal := range set.All() {
		fmt.Print(ordinals.Name("web", ordinal), " ")
	}
	fmt.Println(set.Contains(1))
	// Output: web-0 web-2 web-3 web-4 web-8 false
}

// entries returns "1" as an integer, and text that is no number as a string.
func entries(list ...string) []intstr.IntOrString {
	out := make([]intstr.IntOrString, len(list))
	for i, s := range list {
		out[i] = intstr.Parse(s)
	}
	return out
}

func TestOf(t *testing.T) {
	for _, tc := range []struct {
		name            string
		start, replicas int
		reserved        []string
		want            string
	}{
		{"S-2 nothing reserved", 0, 4, nil, "0-3"},
		{"S-2 B-5 one reserved", 0, 4, []string{"1"}, "0,2-4"},
		{"S-2 one reserved of three", 0, 3, []string{"1"}, "0,2-3"},
		{"S-2 a range", 0, 3, []string{"1-3"}, "0,4-5"},
		{"S-2 start", 2, 4, []string{"1", "3"}, "2,4-6"},
		{"S-2 leading zeros", 0, 4, []string{"0003-005"}, "0-2,6"},
		{"D-7 start alone", 3, 5, nil, "3-7"},
		{"S-2 reserved below start", 10, 2, []string{"0-9"}, "10-11"},
		{"S-2 start inside a reserved range", 5, 2, []string{"3-7"}, "8-9"},
		{"S-2 overlapping and unsorted", 0, 3, []string{"4-6", "0", "5-9", "1"}, "2-3,10"},
		{"S-2 touching", 0, 2, []string{"0", "1", "2-3"}, "4-5"},
		{"S-3 a million reserved", 0, 2, []string{"1-1000000"}, "0,1000001"},
		{"no replicas", 7, 0, []string{"1"}, ""},
		{"no replicas at the end", ordinals.Max, 0, nil, ""},
		{"the last number", ordinals.Max, 1, nil, "2147483647"},
		{"reserved up to the end, not needed", 0, 2, []string{"2-2147483647"}, "0-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set, err := ordinals.Of(ordinals.Paths{Reserved: "spec.reserveOrdinals"}, tc.start, tc.replicas, entries(tc.reserved...)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, set.String()); diff != "" {
				t.Errorf("ordinals (-want +got):\n%s", diff)
			}
			if set.Len() != tc.replicas {
				t.Errorf("Len = %d, want %d", set.Len(), tc.replicas)
			}
		})
	}
}

func TestOfRefuses(t *testing.T) {
	tooLarge := ordinals.Max
	tooLarge++ // negative if an int has 32 bits
	for _, tc := range []struct {
		name            string
		start, replicas int
		reserved        []string
		want            []string
	}{
		{"negative start", -1, 1, nil, []string{"InvalidOrdinal start -1"}},
		{"start too large", tooLarge, 1, nil, []string{"InvalidOrdinal start " + strconv.Itoa(tooLarge)}},
		{"negative replicas", 0, -1, nil, []string{"InvalidOrdinal replicas -1"}},
		{"S-6 a bad entry", 0, 1, []string{"1", "x"}, []string{`InvalidOrdinal reserved[1] "x"`}},
		{"S-6 everything bad", -1, -2, []string{"x"}, []string{`InvalidOrdinal reserved[0] "x"`, "InvalidOrdinal start -1", "InvalidOrdinal replicas -2"}},
		{"past the end", ordinals.Max, 2, nil, []string{"OrdinalOverflow replicas 2"}},
		{"all reserved", 0, 2, []string{"1-2147483647"}, []string{"OrdinalOverflow replicas 2"}},
		{"more than there are numbers", 0, math.MaxInt, nil, []string{"OrdinalOverflow replicas " + strconv.Itoa(math.MaxInt)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set, err := ordinals.Of(ordinals.Paths{Start: "start", Replicas: "replicas", Reserved: "reserved"}, tc.start, tc.replicas, entries(tc.reserved...)...)
			var got []string
			for _, r := range reason.From(err) {
				got = append(got, strings.Join([]string{string(r.Code), r.Path, r.New}, " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if !set.IsZero() {
				t.Errorf("set beside an error = %s", set)
			}
		})
	}
}

func TestParseSetRefuses(t *testing.T) {
	list := []intstr.IntOrString{
		intstr.FromInt32(-1), intstr.FromString("1-2"), intstr.FromString(""), intstr.FromString("5-3"), intstr.FromString("a"),
		intstr.FromString("1-2-3"), intstr.FromString("-4"), intstr.FromString("3-"), intstr.FromString(" 1"),
		intstr.FromString("2147483648"), intstr.FromString("0-99999999999999999999"),
	}
	set, err := ordinals.ParseSet("spec.reserveOrdinals", list)
	if set.Len() != 0 {
		t.Errorf("S-6: set beside an error = %s, want none of it used", set)
	}
	const remedy = `use an integer from 0 to 2147483647, or a range of two such as "3-7"`
	const junk = "not an ordinal or range"
	want := reason.List{}
	for i, bad := range [][2]string{
		{`"-1"`, "negative"},
		{},
		{`""`, junk},
		{`"5-3"`, "the range runs backwards"},
		{`"a"`, junk},
		{`"1-2-3"`, junk},
		{`"-4"`, junk},
		{`"3-"`, junk},
		{`" 1"`, junk},
		{`"2147483648"`, junk},
		{`"0-99999999999999999999"`, junk},
	} {
		if bad[0] != "" {
			want = append(want, reason.Reason{
				Code: ordinals.InvalidOrdinal, Path: "spec.reserveOrdinals[" + strconv.Itoa(i) + "]",
				New: bad[0], Detail: bad[1], Remedy: remedy,
			})
		}
	}
	if diff := cmp.Diff(want, reason.From(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestEmptySet(t *testing.T) {
	var s ordinals.Set
	if _, ok := s.At(0); ok || s.Len() != 0 || s.Contains(0) || s.String() != "" || !s.IsZero() {
		t.Error("the zero Set is not empty")
	}
	computed, err := ordinals.Of(ordinals.Paths{Reserved: "r"}, 0, 0)
	if err != nil || computed.Len() != 0 || computed.IsZero() {
		t.Errorf("no replicas: %s, %v; want a set that is empty and not zero", computed, err)
	}
	if parsed, err := ordinals.ParseSet("r", nil); err != nil || parsed.IsZero() {
		t.Errorf("no entries: %v; want a set that is not zero", err)
	}
	for ordinal := range s.All() {
		t.Errorf("the zero Set yields %d", ordinal)
	}
	for ordinal := range s.Backward() {
		t.Errorf("the zero Set yields %d backwards", ordinal)
	}
}

func TestIterationStops(t *testing.T) {
	s, err := ordinals.Of(ordinals.Paths{Reserved: "r"}, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for ordinal := range s.All() {
		if ordinal == 3 {
			break
		}
	}
	for ordinal := range s.Backward() {
		if ordinal == 999_990 {
			break
		}
	}
}

func TestParseName(t *testing.T) {
	type answer struct {
		Owner   string
		Ordinal int
		OK      bool
	}
	for _, tc := range []struct {
		name string
		want answer
	}{
		{"web-0", answer{"web", 0, true}},
		{"web-10", answer{"web", 10, true}},
		{"my-web-3", answer{"my-web", 3, true}},
		{"web-1-2", answer{"web-1", 2, true}},
		{"web-2147483647", answer{"web", 2147483647, true}},
		{"web-2147483648", answer{}},
		{"web-99999999999999999999", answer{}},
		{"web-01", answer{}},
		{"web-00", answer{}},
		{"web--1", answer{}},
		{"web-+1", answer{}},
		{"web-", answer{}},
		{"web", answer{}},
		{"-1", answer{}},
		{"", answer{}},
		{"web-1a", answer{}},
		{"web-١", answer{}},
	} {
		t.Run("S-1 "+tc.name, func(t *testing.T) {
			owner, ordinal, ok := ordinals.ParseName(tc.name)
			if diff := cmp.Diff(tc.want, answer{owner, ordinal, ok}); diff != "" {
				t.Errorf("ParseName(%q) (-want +got):\n%s", tc.name, diff)
			}
		})
	}
}

func pod(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func TestOfPod(t *testing.T) {
	for _, tc := range []struct {
		owner, pod string
		want       int
		ok         bool
	}{
		{"web", "web-7", 7, true},
		{"web", "web-0", 0, true},
		{"web-1", "web-1-2", 2, true},
		{"web", "web-1-2", 0, false},
		{"web", "webs-1", 0, false},
		{"web", "web-01", 0, false},
		{"web", "web", 0, false},
		{"", "-1", 0, false},
	} {
		t.Run("S-1 "+tc.pod+" of "+tc.owner, func(t *testing.T) {
			if got, ok := ordinals.OfPod(tc.owner, pod(tc.pod)); got != tc.want || ok != tc.ok {
				t.Errorf("OfPod = %d, %v; want %d, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestSortPods(t *testing.T) {
	var pods []*corev1.Pod
	for _, name := range []string{"web-10", "other-0", "web-2147483647", "web-9", "web", "web-0"} {
		pods = append(pods, pod(name))
	}
	ordinals.SortPods("web", pods)
	var got []string
	for _, pod := range pods {
		got = append(got, pod.Name)
	}
	if diff := cmp.Diff([]string{"web-0", "web-9", "web-10", "web-2147483647", "other-0", "web"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// FuzzParseName: ParseName accepts a name only if Name returns the same name for the parts.
func FuzzParseName(f *testing.F) {
	for _, s := range []string{"web-0", "web-01", "a-b-2147483648", "--", "-", "web-+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		owner, ordinal, ok := ordinals.ParseName(name)
		if ok && (ordinals.Name(owner, ordinal) != name || owner == "") {
			t.Errorf("ParseName(%q) = %q, %d", name, owner, ordinal)
		}
	})
}

// FuzzSet compares every operation with the same operation on a plain list.
func FuzzSet(f *testing.F) {
	f.Add(uint8(0), uint8(4), []byte{1, 1})
	f.Add(uint8(2), uint8(4), []byte{1, 1, 3, 3})
	f.Add(uint8(5), uint8(200), []byte{4, 9, 7, 20, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, start, replicas uint8, pairs []byte) {
		var list []intstr.IntOrString
		taken := map[int]bool{}
		for i := 0; i+1 < len(pairs); i += 2 {
			low, high := int(min(pairs[i], pairs[i+1])), int(max(pairs[i], pairs[i+1]))
			list = append(list, intstr.FromString(fmt.Sprintf("%d-%d", low, high)))
			for o := low; o <= high; o++ {
				taken[o] = true
			}
		}
		reserved, err := ordinals.ParseSet("r", list)
		if err != nil {
			t.Fatal(err)
		}
		set, err := ordinals.Of(ordinals.Paths{Reserved: "r"}, int(start), int(replicas), list...)
		if err != nil {
			t.Fatal(err)
		}
		var want []int
		for o := int(start); len(want) < int(replicas); o++ {
			if !taken[o] {
				want = append(want, o)
			}
		}
		check(t, set, want)
		check(t, reserved, slices.Sorted(maps.Keys(taken)))
		reparsed, err := ordinals.ParseSet("r", entriesOf(reserved))
		if err != nil || reparsed.String() != reserved.String() {
			t.Errorf("%s read back is %s, %v", reserved, reparsed, err)
		}
	})
}

func entriesOf(s ordinals.Set) []intstr.IntOrString {
	var list []intstr.IntOrString
	for o := range s.Backward() {
		list = append(list, intstr.FromInt32(int32(o)))
	}
	return list
}

func check(t *testing.T, set ordinals.Set, want []int) {
	t.Helper()
	if diff := cmp.Diff(want, slices.Collect(set.All())); diff != "" {
		t.Fatalf("All (-want +got):\n%s", diff)
	}
	backward := slices.Collect(set.Backward())
	slices.Reverse(backward)
	if diff := cmp.Diff(want, backward); diff != "" {
		t.Fatalf("Backward reversed (-want +got):\n%s", diff)
	}
	for n, o := range want {
		if got, ok := set.At(n); !ok || got != o {
			t.Fatalf("At(%d) = %d, %v; want %d", n, got, ok, o)
		}
	}
	ascending, jumping := set.Ascending(), set.Ascending()
	for o := range 600 {
		rank, found := slices.BinarySearch(want, o)
		if gotRank, got := ascending(o); got != found || gotRank != rank {
			t.Fatalf("Ascending: %d = %d, %v; want %d, %v", o, gotRank, got, rank, found)
		}
		far := o * 37 % 600 // descending as well as ascending
		if gotRank, got := jumping(far); got != slices.Contains(want, far) || gotRank != lower(want, far) {
			t.Fatalf("Ascending, up and down: %d = %d, %v; want %d of %v", far, gotRank, got, lower(want, far), want)
		}
		if gotRank, got := set.Index(o); got != found || gotRank != rank || set.Contains(o) != found {
			t.Fatalf("Index(%d) = %d, %v; want %d, %v", o, gotRank, got, rank, found)
		}
	}
	if _, ok := set.At(len(want)); ok {
		t.Fatal("At past the end finds something")
	}
	if _, ok := set.At(-1); ok {
		t.Fatal("At(-1) finds something")
	}
}

// lower counts the numbers below n.
func lower(list []int, n int) int {
	rank, _ := slices.BinarySearch(list, n)
	return rank
}

func TestNoAllocations(t *testing.T) {
	set := benchmarkSet(t)
	if n := testing.AllocsPerRun(100, func() { set.Contains(1234); set.At(777); set.Index(5) }); n != 0 {
		t.Errorf("membership allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _, _ = ordinals.ParseName("my-web-123") }); n != 0 {
		t.Errorf("ParseName allocates %v times, want 0", n)
	}
}

// benchmarkSet has 1,000 intervals.
func benchmarkSet(tb testing.TB) ordinals.Set {
	tb.Helper()
	var list []intstr.IntOrString
	for i := range int32(1000) {
		list = append(list, intstr.FromInt32(10*i))
	}
	set, err := ordinals.Of(ordinals.Paths{Reserved: "r"}, 0, 9000, list...)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func BenchmarkContains(b *testing.B) {
	set := benchmarkSet(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		set.Contains(i % 10000)
	}
}

// millionReserved returns lists of a million reserved numbers: as ranges, and as single numbers.
func millionReserved() map[string][]intstr.IntOrString {
	ranges, numbers := make([]intstr.IntOrString, 10_000), make([]intstr.IntOrString, 1_000_000)
	for i := range ranges {
		ranges[i] = intstr.FromString(fmt.Sprintf("%d-%d", 101*i+1, 101*i+100))
	}
	for i := range numbers {
		numbers[i] = intstr.FromInt32(int32(2*i + 1))
	}
	shuffled := slices.Clone(numbers)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return map[string][]intstr.IntOrString{"one range": entries("1-1000000"), "10,000 ranges": ranges, "numbers": numbers, "numbers in no order": shuffled}
}

// BenchmarkOf computes ten thousand ordinals with a million reserved numbers.
func BenchmarkOf(b *testing.B) {
	lists := millionReserved()
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if set, err := ordinals.Of(ordinals.Paths{Reserved: "r"}, 0, 10_000, lists[name]...); err != nil || set.Len() != 10_000 {
					b.Fatal(set.Len(), err)
				}
			}
		})
	}
}
