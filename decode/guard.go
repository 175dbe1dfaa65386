package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// longestQuantity limits the characters of a quantity, and longestExponent the digits of its exponent: no quantity
	// in use is longer.
	longestQuantity, longestExponent = 64, 3
	// mostMemory limits the memory for the elements of lists and maps, in bytes. Three characters of JSON can become a
	// container of 700 bytes.
	mostMemory = 16 << 20
	// small is the length, in bytes, up to which data cannot need more than mostMemory.
	small = 16 << 10
)

// guard checks, before decoding, whether the decoding of data would take too long or too much memory, and returns the
// problem.
func guard(data []byte, into reflect.Type) *Problem {
	if len(data) <= small && !isSuspicious(data) {
		return nil
	}
	return walk(data, into, false)
}

// walk returns the first problem with a quantity or with memory, and also with the types of values if diagnose is true.
func walk(data []byte, into reflect.Type, diagnose bool) *Problem {
	w := walker{diagnose: diagnose, decoder: json.NewDecoder(bytes.NewReader(data)), members: map[reflect.Type]map[string]reflect.Type{}}
	w.decoder.UseNumber()
	_ = w.value(into) // the decoder that runs later reports invalid JSON
	return w.problem
}

// isSuspicious reports whether a value looks like a number that takes long to parse. isSuspicious may report harmless
// values, but misses none.
func isSuspicious(data []byte) bool {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			end := endOfString(data, i)
			if isLong(withoutSpace(data[i+1:end])) || hasNumericEscape(data[i+1:end]) {
				return true
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			if isLong(data[i:]) {
				return true
			}
			for i+1 < len(data) && isNumeric(rune(data[i+1])) {
				i++
			}
		}
	}
	return false
}

func isNumeric(c rune) bool { return strings.ContainsRune("0123456789eE+-.", c) }

// isLong reports whether data begins with a number that is longer than the limits of a quantity.
func isLong(data []byte) bool {
	if len(data) > 0 && (data[0] == '+' || data[0] == '-') {
		data = data[1:]
	}
	digits := 0
	for digits < len(data) && (data[digits] >= '0' && data[digits] <= '9' || data[digits] == '.') {
		digits++
	}
	if digits > longestQuantity {
		return true
	}
	data = data[digits:]
	return digits > 0 && len(data) > 0 && (data[0] == 'e' || data[0] == 'E') && exponent(data[1:]) > longestExponent
}

// withoutSpace removes leading space from a number that is written as a string.
func withoutSpace(text []byte) []byte {
	for len(text) > 0 {
		switch {
		case text[0] == ' ' || text[0] >= utf8.RuneSelf:
			text = text[1:]
		case text[0] == '\\' && len(text) > 5 && text[1] == 'u':
			text = text[6:]
		case text[0] == '\\' && len(text) > 1:
			text = text[2:]
		default:
			return text
		}
	}
	return text
}

// hasNumericEscape reports whether a character of a number is written as an escape.
func hasNumericEscape(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || len(text) < at+6 {
			return false
		}
		if text[at+1] == 'u' {
			code, err := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
			if err == nil && isNumeric(rune(code)) {
				return true
			}
		}
		text = text[at+2:]
	}
}

// exponent returns the number of digits of an exponent, after its sign.
func exponent(data []byte) int {
	if len(data) > 0 && (data[0] == '+' || data[0] == '-') {
		data = data[1:]
	}
	digits := 0
	for digits < len(data) && data[digits] >= '0' && data[digits] <= '9' {
		digits++
	}
	return digits
}

// walker reads JSON together with its target type, and checks quantities and the number of elements.
type walker struct {
	diagnose bool

	decoder *json.Decoder
	members map[reflect.Type]map[string]reflect.Type // the members of struct types, by their names in JSON
	path    []string
	memory  uintptr
	problem *Problem
}

// errFound stops the walk at the first problem.
var errFound = errors.New("a problem was found")

func (w *walker) fail(format string, args ...any) error {
	w.problem = &Problem{Path: strings.TrimPrefix(strings.Join(w.path, ""), "."), Detail: fmt.Sprintf(format, args...)}
	return errFound
}

// value reads the next JSON value and checks the value against its Go type. A nil type means that the value is
// skipped.
func (w *walker) value(into reflect.Type) error {
	for into != nil && into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	if into == nil {
		var skipped json.RawMessage
		return w.decoder.Decode(&skipped)
	}
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	if err := w.fits(token, into); err != nil {
		return err
	}
	if w.diagnose && readsItself(into) {
		into = nil
	}
	switch token {
	case json.Delim('{'):
		return w.object(into)
	case json.Delim('['):
		return w.array(into)
	}
	return nil
}

func (w *walker) object(into reflect.Type) error {
	for w.decoder.More() {
		key, err := w.decoder.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		w.path = append(w.path, "."+name)
		if into != nil && into.Kind() == reflect.Map {
			if err := w.use(into.Elem()); err != nil {
				return err
			}
		}
		if err := w.value(w.member(into, name)); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.decoder.Token()
	return err
}

func (w *walker) array(into reflect.Type) error {
	var element reflect.Type
	if into != nil && into.Kind() == reflect.Slice {
		element = into.Elem()
	}
	for i := 0; w.decoder.More(); i++ {
		w.path = append(w.path, "["+strconv.Itoa(i)+"]")
		if element != nil {
			if err := w.use(element); err != nil {
				return err
			}
		}
		if err := w.value(element); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.decoder.Token()
	return err
}

// use adds the memory of an element of a list or map to the total.
func (w *walker) use(element reflect.Type) error {
	if w.memory += element.Size(); w.memory > mostMemory {
		return w.fail("more elements than fit into %d MiB", mostMemory>>20)
	}
	return nil
}

// member returns the type of an object's member, nil if the type has no such member.
func (w *walker) member(into reflect.Type, name string) reflect.Type {
	switch {
	case into == nil:
		return nil
	case into.Kind() == reflect.Map:
		return into.Elem()
	case into.Kind() != reflect.Struct:
		return nil
	}
	members, ok := w.members[into]
	if !ok {
		members = map[string]reflect.Type{}
		for _, field := range reflect.VisibleFields(into) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
				members[name] = field.Type
			}
		}
		w.members[into] = members
	}
	return members[name]
}

// quantity reads the text of a quantity, unless the text is too long.
func (w *walker) quantity(text string) error {
	text = strings.TrimSpace(text) // Quantity.UnmarshalJSON trims space too
	at := strings.IndexAny(text, "eE")
	if len(text) > longestQuantity || at >= 0 && exponent([]byte(text[at+1:])) > longestExponent {
		return w.fail("a quantity has at most %d characters and an exponent of at most %d digits", longestQuantity, longestExponent)
	}
	if _, err := resource.ParseQuantity(text); err != nil {
		return w.fail("%q is no quantity, such as 500m, 2 or 1Gi", text)
	}
	return nil
}
