// Package partition answers "how many is that?" for the numbers of a workload's API, given as a count or a percentage:
// partition, maxUnavailable, maxSurge, parallelism.
//
// Use [Resolve] for most fields, and [ResolveUncapped] for fields that may exceed 100 %. A percentage may have
// decimals ("12.5%") and is computed exactly, so "1.1%" of 1000 is 11 and never 12. The caller names the rounding,
// because API fields round differently, and wrong rounding causes an outage: for example, if maxUnavailable is
// rounded up, a Pod too many is taken out of service.
//
// A value that cannot be parsed gives an error with the field, the value and the allowed values, and never a silent
// zero. In particular, the string "5" without "%" is refused, because some programs read "5" as 5 Pods and others as
// 5 %.
//
// All functions are pure, safe for concurrent use and do not allocate unless they fail or a percentage has more than 17
// digits.
package partition

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// InvalidValue means that a count or percentage cannot be parsed, is negative, or is larger than allowed. The
	// reason holds the field's path, the value found, and as remedy the allowed values. Controllers may use the code
	// for other invalid values in their specs.
	InvalidValue reason.Code = "InvalidValue"
	// MissingValue means that a value is nil. Nil means something different for each field, so callers must handle nil
	// before the call.
	MissingValue reason.Code = "MissingValue"
)

// Rounding says how to round a percentage that does not give a whole number of Pods.
type Rounding uint8

const (
	// Down rounds towards zero.
	Down Rounding = iota
	// Up rounds up to the next whole number.
	Up
	// Nearest rounds to the nearest whole number; a half is rounded up.
	Nearest
)

// goesUp reports whether to round up; rest says that the number is not whole, and half says that its fraction is at
// least a half.
func (r Rounding) goesUp(rest, half bool) bool { return r == Up && rest || r == Nearest && half }

// Resolve turns value into a number. An absolute number is returned unchanged, even if larger than total. A percentage
// is a percentage of total, rounded as round says. Any value of round except [Up] and [Nearest] rounds down.
//
// path is the field's path, used only in the error. The error is a reason.Reason: MissingValue for nil, otherwise
// InvalidValue: a negative number, a string that is no decimal percentage (signs, exponents, blanks and a missing "%"
// are refused), a percentage above 100, a negative total, or a result above the largest int32.
func Resolve(path string, value *intstr.IntOrString, total int, round Rounding) (int, error) {
	return resolve(path, value, total, round, true)
}

// ResolveUncapped is like [Resolve], for fields with values above 100 %, such as maxSurge and maxUnavailable of
// Kubernetes.
func ResolveUncapped(path string, value *intstr.IntOrString, total int, round Rounding) (int, error) {
	return resolve(path, value, total, round, false)
}

func resolve(path string, value *intstr.IntOrString, total int, round Rounding, capped bool) (int, error) {
	if value == nil {
		return 0, reason.Reason{Code: MissingValue, Path: path, Remedy: "decide what an absent value stands for"}
	}
	if total < 0 {
		return 0, invalid(path, strconv.Itoa(total), "the total is negative", capped)
	}
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return 0, invalid(path, strconv.Itoa(int(value.IntVal)), "negative", capped)
		}
		return int(value.IntVal), nil
	}
	n, problem := percentOf(value.StrVal, uint64(total), round, capped)
	if problem != "" {
		return 0, invalid(path, strconv.Quote(reason.Shorten(value.StrVal, 40)), problem, capped)
	}
	return n, nil
}

// Validate returns an error if [Resolve] would refuse value for every total. A nil value is valid.
func Validate(path string, value *intstr.IntOrString) error { return validate(path, value, true) }

// ValidateUncapped returns an error if [ResolveUncapped] would refuse value for every total. A nil value is valid.
func ValidateUncapped(path string, value *intstr.IntOrString) error {
	return validate(path, value, false)
}

func validate(path string, value *intstr.IntOrString, capped bool) error {
	if value == nil {
		return nil
	}
	_, err := resolve(path, value, 1, Down, capped)
	return err
}

// Kept returns how many Pods a partition keeps at the old revision: a percentage is rounded up, but if there are two
// or more Pods, any percentage except exactly "100%" lets at least one Pod be updated. The result is between 0 and
// replicas.
//
//	10, "25%" -> 3    3, "90%" -> 2    99, "99%" -> 98    1, "10%" -> 1    4, "100.0%" -> 3
//
// A nil value keeps no Pods; nil replicas mean 1, as in the API's defaults. Percentages above 100 keep all Pods. The
// error comes from [ResolveUncapped].
func Kept(path string, value *intstr.IntOrString, replicas *int32) (int, error) {
	total := 1
	if replicas != nil {
		total = int(*replicas)
	}
	if value == nil {
		return 0, nil
	}
	kept, err := ResolveUncapped(path, value, total, Up)
	if err != nil {
		return 0, err
	}
	// The text is compared, not the number: OpenKruise also lets one Pod be updated for "100.0%".
	if value.Type == intstr.String && total > 1 && kept == total && value.StrVal != "100%" {
		kept--
	}
	return min(kept, total), nil
}

func invalid(path, value, problem string, capped bool) error {
	allowed := `an integer from 0 to 2147483647, or a percentage from "0%" to "100%" such as "12.5%"`
	if !capped {
		allowed = `an integer from 0 to 2147483647, or a percentage such as "12.5%"`
	}
	return reason.Reason{Code: InvalidValue, Path: path, New: value, Detail: problem, Remedy: "use " + allowed}
}

// fastDigits is the number of digits for which 64-bit arithmetic is enough: a numerator of 17 digits and a divisor of
// 100 * 10^17 both fit.
const fastDigits = 17

// maxDigits limits the length of a percentage. A longer percentage is a mistake, or an attack that would make the
// big-number arithmetic slow.
const maxDigits = 200

// percentOf returns s percent of total, or a text that says why s is invalid.
func percentOf(s string, total uint64, round Rounding, capped bool) (int, string) {
	number, found := strings.CutSuffix(s, "%")
	if !found {
		return 0, "no % sign"
	}
	whole, fraction, _ := strings.Cut(number, ".")
	if len(whole)+len(fraction) == 0 {
		return 0, "no digits"
	}
	if len(whole)+len(fraction) > maxDigits {
		return 0, "too many digits"
	}
	if !onlyDigits(whole) || !onlyDigits(fraction) {
		return 0, "not a decimal number"
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if capped && above100(whole, fraction) {
		return 0, "above 100 %"
	}
	if len(whole)+len(fraction) > fastDigits {
		return longPercentOf(whole+fraction, len(fraction), total, round)
	}
	numerator, divisor := uint64(0), uint64(100)
	for i := range len(whole) {
		numerator = numerator*10 + uint64(whole[i]-'0')
	}
	for i := range len(fraction) {
		numerator, divisor = numerator*10+uint64(fraction[i]-'0'), divisor*10
	}
	hi, lo := bits.Mul64(numerator, total)
	if hi >= divisor {
		return 0, "too large"
	}
	quotient, rest := bits.Div64(hi, lo, divisor)
	if round.goesUp(rest > 0, rest >= divisor-rest) {
		quotient++
	}
	if quotient > math.MaxInt32 {
		return 0, "too large"
	}
	return int(quotient), ""
}

// longPercentOf computes the same as percentOf, for numbers that do not fit into 64 bits.
func longPercentOf(digits string, decimals int, total uint64, round Rounding) (int, string) {
	numerator, _ := new(big.Int).SetString(digits, 10)
	numerator.Mul(numerator, new(big.Int).SetUint64(total))
	divisor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)+2), nil)
	quotient, rest := numerator.QuoRem(numerator, divisor, new(big.Int))
	if round.goesUp(rest.Sign() > 0, new(big.Int).Lsh(rest, 1).Cmp(divisor) >= 0) {
		quotient.Add(quotient, big.NewInt(1))
	}
	if !quotient.IsInt64() || quotient.Int64() > math.MaxInt32 {
		return 0, "too large"
	}
	return int(quotient.Int64()), ""
}

// above100 reports whether a percentage is above 100. whole are the digits before the point, without leading zeros, and
// fraction the digits after, without trailing zeros.
func above100(whole, fraction string) bool {
	return len(whole) > 3 || len(whole) == 3 && (whole > "100" || fraction != "")
}

func onlyDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
