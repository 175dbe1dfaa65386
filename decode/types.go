package decode

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// readsItself reports whether a type has its own decoder.
func readsItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fits returns an error if a value does not fit the type. The decoder may still refuse a value that fits accepts.
func (w *walker) fits(token json.Token, into reflect.Type) error {
	number, isNumber := token.(json.Number)
	text, isText := token.(string)
	switch {
	case token == nil: // null sets every type to its zero value
		return nil
	case into == reflect.TypeFor[resource.Quantity]() && (isText || isNumber):
		return w.quantity(text + number.String())
	case !w.diagnose:
		return nil
	case into == reflect.TypeFor[intstr.IntOrString]() && isNumber && !hasBits(number, 32):
		return w.fail("is %s, must be an integer of at most 32 bits, or text such as %q", number, "5%")
	case readsItself(into):
		return nil
	}
	if is, takes := describe(token, into); !takes && into.Kind() != reflect.Interface {
		return w.fail("is %s, must be %s", is, wanted(into))
	}
	return nil
}

// describe names the JSON kind of a value, and reports whether a type without its own decoder accepts the value.
func describe(token json.Token, into reflect.Type) (is string, takes bool) {
	kind := into.Kind()
	switch token := token.(type) {
	case bool:
		return "true or false", kind == reflect.Bool
	case string:
		return "text", kind == reflect.String || into == reflect.TypeFor[[]byte]()
	case json.Number:
		if kind >= reflect.Int && kind <= reflect.Int64 {
			return token.String(), hasBits(token, into.Bits())
		}
		return token.String(), kind > reflect.Int64 && kind <= reflect.Float64
	}
	if token == json.Delim('{') {
		return "an object", kind == reflect.Struct || kind == reflect.Map
	}
	return "a list", kind == reflect.Slice || kind == reflect.Array
}

// hasBits reports whether a number is within the range of integers with the given number of bits.
func hasBits(number json.Number, bits int) bool {
	n, err := number.Float64()
	return err == nil && math.Abs(n) <= math.Ldexp(1, bits-1)
}

// wanted describes the values of a Go type for users who write objects.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of at most %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return t.String()
	}
}
