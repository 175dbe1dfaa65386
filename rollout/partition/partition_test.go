package partition_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

func Example() {
	budget := intstr.FromString("12.5%")
	down, _ := partition.Resolve("spec.updateStrategy.maxUnavailable", &budget, 20, partition.Down)
	up, _ := partition.Resolve("spec.updateStrategy.maxUnavailable", &budget, 20, partition.Up)
	fmt.Println(down, up)

	typo := intstr.FromString("20")
	_, err := partition.Resolve("spec.updateStrategy.maxUnavailable", &typo, 20, partition.Down)
	fmt.Println(err)
	// Output:
	// 2 3
	// InvalidValue: spec.updateStrategy.maxUnavailable: "20": no % sign; use an integer from 0 to 2147483647, or a percentage from "0%" to "100%" such as "12.5%"
}

func ExampleKept() {
	partitioned := intstr.FromString("90%")
	kept, _ := partition.Kept("spec.updateStrategy.partition", &partitioned, ptr.To(int32(3)))
	fmt.Println(kept)
	// Output: 2
}

// resolver is a function such as Resolve with a given rounding.
type resolver func(path string, value *intstr.IntOrString, total int) (int, error)

func down(path string, value *intstr.IntOrString, total int) (int, error) {
	return partition.Resolve(path, value, total, partition.Down)
}

func up(path string, value *intstr.IntOrString, total int) (int, error) {
	return partition.Resolve(path, value, total, partition.Up)
}

func nearest(path string, value *intstr.IntOrString, total int) (int, error) {
	return partition.Resolve(path, value, total, partition.Nearest)
}

func downUncapped(path string, value *intstr.IntOrString, total int) (int, error) {
	return partition.ResolveUncapped(path, value, total, partition.Down)
}

func upUncapped(path string, value *intstr.IntOrString, total int) (int, error) {
	return partition.ResolveUncapped(path, value, total, partition.Up)
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		name    string
		value   intstr.IntOrString
		total   int
		resolve resolver
		want    int
	}{
		{"absolute", intstr.FromInt32(3), 10, down, 3},
		{"absolute zero", intstr.FromInt32(0), 10, up, 0},
		{"more digits than 64 bits, exact", intstr.FromString("0.000003814697265625%"), 26214400, up, 1},
		{"absolute above the total", intstr.FromInt32(30), 10, down, 30},
		{"largest absolute", intstr.FromInt32(math.MaxInt32), 0, up, math.MaxInt32},
		{"P-1 decimals up", intstr.FromString("12.5%"), 10, up, 2},
		{"P-1 decimals down", intstr.FromString("12.5%"), 10, down, 1},
		{"P-1 no rounding needed", intstr.FromString("12.5%"), 8, up, 1},
		{"P-4 up", intstr.FromString("20%"), 4, up, 1},
		{"P-4 surge up", intstr.FromString("30%"), 5, up, 2},
		{"P-4 budget down", intstr.FromString("30%"), 5, down, 1},
		{"P-6 statefulset", intstr.FromString("15%"), 20, down, 3},
		{"P-6 below one", intstr.FromString("10%"), 5, down, 0},
		{"P-7 partition", intstr.FromString("50%"), 5, down, 2},
		{"P-7 surge", intstr.FromString("30%"), 5, up, 2},
		{"a float would say 12", intstr.FromString("1.1%"), 1000, up, 11},
		{"a float would say 28", intstr.FromString("0.29%"), 10000, down, 29},
		{"zero", intstr.FromString("0%"), 10, up, 0},
		{"zeros", intstr.FromString("000.000%"), 10, up, 0},
		{"leading zeros", intstr.FromString("050%"), 10, up, 5},
		{"UD-2 a half is rounded up", intstr.FromString("50%"), 5, nearest, 3},
		{"UD-2 less than a half is rounded down", intstr.FromString("9%"), 5, nearest, 0},
		{"the nearest of more digits than 64 bits, a half", intstr.FromString("0.50000000000000000000%"), 100, nearest, 1},
		{"the nearest of more digits than 64 bits, a little less", intstr.FromString("0.49999999999999999999%"), 100, nearest, 0},
		{"the nearest of 17 digits", intstr.FromString("99.999999999999999%"), 1, nearest, 1},
		{"no whole digits", intstr.FromString(".5%"), 1000, down, 5},
		{"no decimals after the point", intstr.FromString("5.%"), 100, down, 5},
		{"of nothing", intstr.FromString("100%"), 0, up, 0},
		{"exactly 100", intstr.FromString("100.000%"), 7, up, 7},
		{"a little is rounded up", intstr.FromString("0.00000000000000001%"), 1, up, 1},
		{"17 digits", intstr.FromString("99.999999999999999%"), 1, down, 0},
		{"more digits than 64 bits, up", intstr.FromString("33.33333333333333333333333334%"), 3, up, 2},
		{"more digits than 64 bits, down", intstr.FromString("33.33333333333333333333333334%"), 3, down, 1},
		{"more digits than 64 bits, largest result", intstr.FromString("99.99999999999999999999%"), math.MaxInt32, up, math.MaxInt32},
		{"as many digits as are read", intstr.FromString("0." + strings.Repeat("9", 199) + "%"), 100, up, 1},
		{"above 100", intstr.FromString("250%"), 10, downUncapped, 25},
		{"above 100 by a little, up", intstr.FromString("100.1%"), 10, upUncapped, 11},
		{"largest result", intstr.FromString("100%"), math.MaxInt32, up, math.MaxInt32},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.resolve("spec.x", &tc.value, tc.total)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("Resolve(%s of %d) = %d, want %d", tc.value.String(), tc.total, got, tc.want)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	const (
		upTo100 = `use an integer from 0 to 2147483647, or a percentage from "0%" to "100%" such as "12.5%"`
		over100 = `use an integer from 0 to 2147483647, or a percentage such as "12.5%"`
	)
	for _, tc := range []struct {
		name    string
		value   intstr.IntOrString
		total   int
		resolve resolver
		want    reason.Reason
	}{
		{"P-1 no sign", intstr.FromString("5"), 9, down, reason.Reason{New: `"5"`, Detail: "no % sign", Remedy: upTo100}},
		{"empty", intstr.FromString(""), 9, down, reason.Reason{New: `""`, Detail: "no % sign", Remedy: upTo100}},
		{"only the sign", intstr.FromString("%"), 9, down, reason.Reason{New: `"%"`, Detail: "no digits", Remedy: upTo100}},
		{"only a point", intstr.FromString(".%"), 9, down, reason.Reason{New: `".%"`, Detail: "no digits", Remedy: upTo100}},
		{"negative", intstr.FromString("-1%"), 9, down, reason.Reason{New: `"-1%"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"plus", intstr.FromString("+1%"), 9, down, reason.Reason{New: `"+1%"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"not a number", intstr.FromString("NaN%"), 9, down, reason.Reason{New: `"NaN%"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"infinite", intstr.FromString("Inf%"), 9, down, reason.Reason{New: `"Inf%"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"exponent", intstr.FromString("1e3%"), 9, downUncapped, reason.Reason{New: `"1e3%"`, Detail: "not a decimal number", Remedy: over100}},
		{"two points", intstr.FromString("1.2.3%"), 9, down, reason.Reason{New: `"1.2.3%"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"two signs", intstr.FromString("1%%"), 9, down, reason.Reason{New: `"1%%"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"blank", intstr.FromString("1 %"), 9, down, reason.Reason{New: `"1 %"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"other digits", intstr.FromString("٣%"), 9, down, reason.Reason{New: `"٣%"`, Detail: "not a decimal number", Remedy: upTo100}},
		{"above 100", intstr.FromString("101%"), 9, down, reason.Reason{New: `"101%"`, Detail: "above 100 %", Remedy: upTo100}},
		{"a little above 100", intstr.FromString("100.01%"), 9, up, reason.Reason{New: `"100.01%"`, Detail: "above 100 %", Remedy: upTo100}},
		{"1000", intstr.FromString("1000%"), 9, up, reason.Reason{New: `"1000%"`, Detail: "above 100 %", Remedy: upTo100}},
		{"negative integer", intstr.FromInt32(-1), 9, down, reason.Reason{New: "-1", Detail: "negative", Remedy: upTo100}},
		{"negative total", intstr.FromInt32(1), -9, down, reason.Reason{New: "-9", Detail: "the total is negative", Remedy: upTo100}},
		{"result too large", intstr.FromString("200%"), math.MaxInt32, downUncapped, reason.Reason{New: `"200%"`, Detail: "too large", Remedy: over100}},
		{
			"128 bits are not enough", intstr.FromString("99999999999999999%"), math.MaxInt, downUncapped,
			reason.Reason{New: `"99999999999999999%"`, Detail: "too large", Remedy: over100},
		},
		{
			"128 bits are just not enough", intstr.FromString("201%"), math.MaxInt, downUncapped,
			reason.Reason{New: `"201%"`, Detail: "too large", Remedy: over100},
		},
		{
			"huge", intstr.FromString(strings.Repeat("9", 30) + "%"), 9, downUncapped,
			reason.Reason{New: `"` + strings.Repeat("9", 30) + `%"`, Detail: "too large", Remedy: over100},
		},
		{
			"absurd", intstr.FromString(strings.Repeat("9", 300) + "%"), 9, downUncapped,
			reason.Reason{New: `"` + strings.Repeat("9", 40) + `..."`, Detail: "too many digits", Remedy: over100},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Code, tc.want.Path = partition.InvalidValue, "spec.x"
			n, err := tc.resolve("spec.x", &tc.value, tc.total)
			if n != 0 {
				t.Errorf("number beside an error = %d, want 0", n)
			}
			if diff := cmp.Diff(reason.List{tc.want}, reason.From(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := partition.Resolve("spec.x", nil, 9, partition.Up); !errors.Is(err, partition.MissingValue) {
		t.Errorf("nil value: error = %v, want MissingValue", err)
	}
}

func TestValidate(t *testing.T) {
	for value, want := range map[string]struct{ capped, uncapped bool }{
		"12.5%": {true, true}, "100%": {true, true}, "101%": {false, true}, "7": {false, false},
	} {
		v := intstr.FromString(value)
		if err := partition.Validate("spec.x", &v); (err == nil) != want.capped {
			t.Errorf("Validate(%q) = %v, want ok=%v", value, err, want.capped)
		}
		if err := partition.ValidateUncapped("spec.x", &v); (err == nil) != want.uncapped {
			t.Errorf("ValidateUncapped(%q) = %v, want ok=%v", value, err, want.uncapped)
		}
	}
	if err := errors.Join(partition.Validate("spec.x", nil), partition.ValidateUncapped("spec.x", nil)); err != nil {
		t.Errorf("nil: %v", err)
	}
}

func TestKept(t *testing.T) {
	for _, tc := range []struct {
		name     string
		value    *intstr.IntOrString
		replicas *int32
		want     int
	}{
		{"P-2 percentage", ptr.To(intstr.FromString("25%")), ptr.To(int32(10)), 3},
		{"P-2 all but one", ptr.To(intstr.FromString("90%")), ptr.To(int32(3)), 2},
		{"P-2 rounding up to all", ptr.To(intstr.FromString("99%")), ptr.To(int32(99)), 98},
		{"P-2 decimals", ptr.To(intstr.FromString("33.3%")), ptr.To(int32(9)), 3},
		{"P-2 one replica", ptr.To(intstr.FromString("10%")), ptr.To(int32(1)), 1},
		{"P-2 no replicas", ptr.To(intstr.FromString("99%")), ptr.To(int32(0)), 0},
		{"P-2 absolute above replicas", ptr.To(intstr.FromInt32(15)), ptr.To(int32(10)), 10},
		{"P-2 absolute all", ptr.To(intstr.FromInt32(10)), ptr.To(int32(10)), 10},
		{"P-2 the string 100.0% is another", ptr.To(intstr.FromString("100.0%")), ptr.To(int32(4)), 3},
		{"P-2 100%", ptr.To(intstr.FromString("100%")), ptr.To(int32(4)), 4},
		{"P-2 nil value", nil, ptr.To(int32(4)), 0},
		{"P-2 nil replicas are one", ptr.To(intstr.FromString("50%")), nil, 1},
		{"P-2 above 100 keeps all", ptr.To(intstr.FromString("150%")), ptr.To(int32(10)), 10},
		{"P-2 two replicas", ptr.To(intstr.FromString("51%")), ptr.To(int32(2)), 1},
		{"P-2 zero percent", ptr.To(intstr.FromString("0%")), ptr.To(int32(5)), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := partition.Kept("spec.partition", tc.value, tc.replicas)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("Kept = %d, want %d", got, tc.want)
			}
		})
	}
	bad := intstr.FromString("x%")
	if _, err := partition.Kept("spec.partition", &bad, nil); !errors.Is(err, partition.InvalidValue) {
		t.Errorf("Kept(x%%) error = %v, want InvalidValue", err)
	}
	if _, err := partition.Kept("spec.partition", &intstr.IntOrString{}, ptr.To(int32(-1))); !errors.Is(err, partition.InvalidValue) {
		t.Errorf("Kept of -1 replicas: error = %v, want InvalidValue", err)
	}
}

func TestNoAllocations(t *testing.T) {
	percent, replicas := intstr.FromString("33.3%"), int32(1000)
	if n := testing.AllocsPerRun(100, func() { _, _ = partition.Kept("spec.partition", &percent, &replicas) }); n != 0 {
		t.Errorf("Kept allocates %v times, want 0", n)
	}
}

var decimal = regexp.MustCompile(`^([0-9]+\.?[0-9]*|\.[0-9]+)%$`)

// FuzzResolve compares Resolve with a second implementation, made of rational arithmetic and a regular expression for
// percentages.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{"12.5%", "33.3%", "100.0%", "0.29%", "5", "", "%", "-1%", "NaN%", "1e3%", "99999999999999999999%", ".%"} {
		f.Add(s, int32(10), uint8(0))
		f.Add(s, int32(math.MaxInt32), uint8(3))
	}
	f.Fuzz(func(t *testing.T, s string, total int32, flags uint8) {
		isUp, uncapped := flags&1 == 0, flags&2 != 0
		resolve := map[[2]bool]resolver{
			{true, false}: up, {false, false}: down, {true, true}: upUncapped, {false, true}: downUncapped,
		}[[2]bool{isUp, uncapped}]
		value := intstr.FromString(s)
		got, err := resolve("p", &value, int(total))
		if err != nil && reason.From(err) == nil {
			t.Fatalf("untyped error %v", err)
		}
		if !decimal.MatchString(s) || total < 0 {
			if err == nil {
				t.Fatalf("Resolve(%q of %d) = %d, want an error", s, total, got)
			}
			return
		}
		number := strings.TrimSuffix(s, "%")
		if len(number) > 200 {
			return
		}
		exact, ok := new(big.Rat).SetString("0" + number + "0") // the added zeros make ".5" and "5." valid numbers
		if !strings.Contains(number, ".") {
			exact, ok = new(big.Rat).SetString(number)
		}
		if !ok {
			t.Fatalf("%q is no number to math/big", number)
		}
		tooBig := exact.Cmp(big.NewRat(100, 1)) > 0 && !uncapped
		exact.Mul(exact, big.NewRat(int64(total), 100))
		half := new(big.Rat).Add(exact, big.NewRat(1, 2))
		if near, err := nearest("p", &value, int(total)); err == nil && new(big.Int).Quo(half.Num(), half.Denom()).Int64() != int64(near) {
			t.Fatalf("the nearest to %q of %d is %d", s, total, near)
		}
		want := new(big.Int).Quo(exact.Num(), exact.Denom())
		if isUp && !exact.IsInt() {
			want.Add(want, big.NewInt(1))
		}
		tooBig = tooBig || want.Cmp(big.NewInt(math.MaxInt32)) > 0
		if tooBig != (err != nil) {
			t.Fatalf("Resolve(%q of %d) error = %v, want an error: %v", s, total, err, tooBig)
		}
		if err == nil && want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Fatalf("Resolve(%q of %d) = %d, want %v", s, total, got, want)
		}
	})
}

// FuzzKept checks Kept for any value: the result is within bounds, and only "100%" keeps all of two or more Pods.
func FuzzKept(f *testing.F) {
	f.Add(uint16(9999), int32(99))
	f.Add(uint16(10000), int32(4))
	f.Add(uint16(1), int32(2))
	f.Fuzz(func(t *testing.T, hundredths uint16, replicas int32) {
		if replicas < 0 || hundredths > 10000 {
			return
		}
		value := intstr.FromString(fmt.Sprintf("%d.%02d%%", hundredths/100, hundredths%100))
		kept, err := partition.Kept("p", &value, &replicas)
		if err != nil {
			t.Fatal(err)
		}
		if kept < 0 || kept > int(replicas) || (replicas > 1 && kept == int(replicas)) {
			t.Errorf("Kept(%s of %d) = %d", value.StrVal, replicas, kept)
		}
	})
}

func BenchmarkKept(b *testing.B) {
	percent, replicas := intstr.FromString("33.3%"), int32(1000)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = partition.Kept("spec.partition", &percent, &replicas)
	}
}
