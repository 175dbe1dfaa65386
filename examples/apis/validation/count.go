package validation

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// Count validates an integer or percentage, which may be above 100 %, of any total. [partition.ValidateUncapped]
// defines the allowed values. A nil value is valid.
func Count(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	return refused(partition.ValidateUncapped("", value), value, path)
}

// CountOf does the same as [Count] for a known total: the resulting number, rounded up, must also not be too large.
func CountOf(value *intstr.IntOrString, total int32, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	_, err := partition.ResolveUncapped("", value, int(total), partition.Up)
	return refused(err, value, path)
}

func refused(err error, value *intstr.IntOrString, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, why := range reason.From(err) {
		errs = append(errs, field.Invalid(path, shown(*value), why.Detail+"; "+why.Remedy))
	}
	return errs
}

// AtLeastOne reports whether value is at least 1 of total. Percentages are rounded up, so if total is above 0, every
// value above 0 is at least 1. For values that [Count] refuses, AtLeastOne returns false.
func AtLeastOne(value intstr.IntOrString, total int32) bool {
	// With a larger total, the number could be too large.
	n, err := partition.ResolveUncapped("", &value, int(min(max(total, 0), 1)), partition.Up)
	return err == nil && n > 0
}

// IsNone reports whether a value is 0 of any total, as nil is. For values that [Count] refuses, IsNone returns false.
func IsNone(value *intstr.IntOrString) bool {
	if value == nil {
		return true
	}
	n, err := partition.ResolveUncapped("", value, 1, partition.Up)
	return err == nil && n == 0
}

// AsOpenKruise returns the value as OpenKruise 1.9 interprets it in fields that OpenKruise does not validate: a number
// in a string is a percentage, and a negative number is zero. Values that [Count] accepts, and values that are invalid
// in OpenKruise too, are returned unchanged.
func AsOpenKruise(value intstr.IntOrString) intstr.IntOrString {
	if partition.ValidateUncapped("", &value) == nil {
		return value
	}
	if value.Type == intstr.Int {
		return intstr.FromInt32(0)
	}
	if n, err := strconv.ParseInt(strings.TrimSuffix(value.StrVal, "%"), 10, 32); err == nil {
		return intstr.FromString(strconv.FormatInt(max(n, 0), 10) + "%")
	}
	return value
}

// shown returns the value as the user has written it, shortened.
func shown(value intstr.IntOrString) any {
	if value.Type == intstr.Int {
		return value.IntVal
	}
	return reason.Shorten(value.StrVal, 64)
}

// NotNegative returns an error for a number below 0. A nil value is valid.
func NotNegative[T int32 | int64](value *T, path *field.Path) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(path, *value, "must be at least 0")}
	}
	return nil
}
