package validation

import (
	"math"
	"math/big"
	"regexp"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CountRule says what [Count] allows.
const CountRule = `must be an integer from 0 to 2147483647, such as 5, or a percentage, such as "5%" or "12.5%"`

// percentage is how percentages are written. The length is limited so that hostile input stays cheap.
var percentage = regexp.MustCompile(`^([0-9]{1,10}(?:\.[0-9]{1,18})?)%$`)

// Count checks an integer or percentage: not negative, at most 2147483647, a string only with "%". Decimals are
// fine ("12.5%"), more than 100% as well. Nil is fine.
func Count(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	if _, ok := rational(*value); !ok {
		return field.ErrorList{field.Invalid(path, shown(*value), CountRule)}
	}
	return nil
}

// AtLeastOne reports whether value amounts to at least 1 of total, percentages rounded up. That is so for
// everything above 0 as long as total is above 0. It is false for values [Count] refuses.
func AtLeastOne(value intstr.IntOrString, total int32) bool {
	number, ok := rational(value)
	if !ok || number.Sign() == 0 {
		return false
	}
	return value.Type == intstr.Int || total > 0
}

// rational returns the integer, or the number before "%". It is exact, so no value is too long to compare.
func rational(value intstr.IntOrString) (*big.Rat, bool) {
	number := new(big.Rat)
	switch value.Type {
	case intstr.Int:
		number.SetInt64(int64(value.IntVal))
	case intstr.String:
		parts := percentage.FindStringSubmatch(value.StrVal)
		if parts == nil {
			return nil, false
		}
		number.SetString(parts[1])
	default:
		return nil, false
	}
	ok := number.Sign() >= 0 && number.Cmp(new(big.Rat).SetInt64(math.MaxInt32)) <= 0
	return number, ok
}

// shown returns the value as the user wrote it, shortened.
func shown(value intstr.IntOrString) any {
	const limit = 64
	if value.Type == intstr.Int {
		return value.IntVal
	}
	if len(value.StrVal) > limit {
		return value.StrVal[:limit] + "..."
	}
	return value.StrVal
}
