package validation

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/reason"
)

// Count checks an integer or percentage, which may be above 100 %, whatever it is a percentage of. What is allowed is for
// [partition.ValidateUncapped] to say. Nil is fine.
func Count(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	return refused(partition.ValidateUncapped("", value), value, path)
}

// CountOf is [Count] for a value that is taken of total, rounded up: the number it amounts to must not be too large either.
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

// AtLeastOne reports whether value amounts to at least 1 of total, percentages rounded up. That is so for
// everything above 0 as long as total is above 0. It is false for values [Count] refuses.
func AtLeastOne(value intstr.IntOrString, total int32) bool {
	n, err := partition.ResolveUncapped("", &value, int(min(max(total, 0), 1)), partition.Up) // of more than one it might be too much
	return err == nil && n > 0
}

// AsOpenKruise returns what OpenKruise 1.9 takes value for in fields that it does not validate: a number in a string is a percentage, and
// what is negative is zero. Values that [Count] accepts, and those that make no sense to OpenKruise either, are returned as they are.
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

// shown returns the value as the user wrote it, shortened.
func shown(value intstr.IntOrString) any {
	if value.Type == intstr.Int {
		return value.IntVal
	}
	return reason.Shorten(value.StrVal, 64)
}

// NotNegative refuses a number below 0. Nil is fine.
func NotNegative[T int32 | int64](value *T, path *field.Path) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(path, *value, "must be at least 0")}
	}
	return nil
}
