package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/reason"
)

// Undecodable means that a field holds a value that cannot be decoded. A webhook that decodes the templates refuses
// such values at admission. If no webhook checks the templates, the API server stores any value.
const Undecodable reason.Code = "Undecodable"

// Problem says why a value cannot be decoded.
type Problem struct {
	// Path is the path from the decoded object to the value, as far as known.
	Path string
	// Detail is the reason, without the value's path.
	Detail string
}

// Error returns a text with the path and the detail.
func (p Problem) Error() string {
	if p.Path == "" {
		return p.Detail
	}
	return p.Path + ": " + p.Detail
}

// In returns the problem with its path prefixed by a field name, for an enclosing object with the decoded value in the
// field.
func (p Problem) In(name string) Problem {
	if p.Path != "" {
		name += "." + p.Path
	}
	return Problem{Path: name, Detail: p.Detail}
}

// Reasons returns problems as reasons, nil if there are none.
func Reasons(problems []Problem) (list reason.List) {
	for _, p := range problems {
		list = append(list, reason.Reason{Code: Undecodable, Path: p.Path, Detail: p.Detail, Remedy: "correct the value"})
	}
	return list
}

// Object decodes JSON into a pointer. The error is a [Problem]. Memory and time are linear in the length of data.
// Object refuses values that take too long to parse, anywhere in the data, even within a type whose own decoder
// leaves out undecodable fields ([Fields]).
func Object(data []byte, into any) error {
	if problem := guard(data, reflect.TypeOf(into)); problem != nil {
		return *problem
	}
	err := utiljson.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	if known := (Problem{}); errors.As(err, &known) {
		return known // the value's own decoder has returned a Problem
	}
	if found := walk(data, reflect.TypeOf(into), true); found != nil {
		return *found // the path of found has indexes and keys, which the decoder's error lacks
	}
	return problemOf(err)
}

// Fields decodes JSON into a struct even if some fields cannot be decoded, and overwrites the struct's former content.
// A field that cannot be decoded is set to zero, and problems says why, in the order of the names. Fields returns an
// error if the JSON is no object, or if the target is no pointer to a struct; the error is a [Problem], and the struct
// is not modified. All paths begin with at, the name of the decoded value.
//
// Call Fields in UnmarshalJSON, with the pointer converted to a type without this method. A later write of the struct
// would lose the undecodable fields. So keep the problems in the struct, and call [Marshal] in MarshalJSON, as in the
// example.
func Fields(data []byte, into any, at string) (problems []Problem, err error) {
	if pointer := reflect.ValueOf(into); pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Struct {
		return nil, Problem{Path: at, Detail: fmt.Sprintf("decoding into %T, must be a pointer to a struct", into)}
	}
	whole := reflect.ValueOf(into).Elem()
	read := reflect.New(whole.Type())
	problems, err = fields(data, read.Interface())
	for i := range problems {
		problems[i] = problems[i].In(at)
	}
	if err != nil {
		return nil, problemOf(err).In(at)
	}
	whole.Set(read.Elem())
	return problems, nil
}

// Marshal encodes a struct that was decoded by [Fields], and returns an error if there were problems: writing the
// struct would lose the undecodable fields. The caller must convert the struct to a type without the method MarshalJSON,
// because the encoder would call that method again and again.
func Marshal(plain any, problems []Problem) ([]byte, error) {
	if len(problems) > 0 {
		return nil, fmt.Errorf("what was not decoded in full cannot be written: %w", problems[0])
	}
	return json.Marshal(plain)
}

func fields(data []byte, into any) (problems []Problem, err error) {
	if Object(data, into) == nil { // the usual case: all fields can be decoded
		return nil, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, problemOf(err)
	}
	whole := reflect.ValueOf(into).Elem()
	result := reflect.New(whole.Type())
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: raw[name]})
		if err != nil {
			return nil, problemOf(err)
		}
		scratch := reflect.New(whole.Type()) // a failed decoding may leave a part of the field set
		if err := Object(alone, scratch.Interface()); err != nil {
			problem := problemOf(err)
			if problem.Path == "" {
				problem.Path = name
			}
			problems = append(problems, problem)
			continue
		}
		if err := utiljson.Unmarshal(alone, result.Interface()); err != nil {
			return nil, problemOf(err)
		}
	}
	whole.Set(result.Elem())
	return problems, nil
}

// problemOf turns a decoder's error into a Problem.
func problemOf(err error) Problem {
	var known Problem
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &wrong):
		return Problem{Path: wrong.Field, Detail: "must be " + wanted(wrong.Type)}
	}
	return Problem{Detail: err.Error()}
}

// Depth returns the nesting depth of arrays and objects in JSON. If the input is not JSON, the number is arbitrary.
func Depth(data []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case '"':
			i = endOfString(data, i)
		}
	}
	return deepest
}

// Elements returns the number of elements of all arrays in JSON together. If the input is not JSON, the number is
// arbitrary.
func Elements(data []byte) int {
	elements, inArray, begun := 0, []bool{}, false // begun says that the current array has an element
	for i := 0; i < len(data); i++ {
		c := data[i]
		if array := len(inArray) > 0 && inArray[len(inArray)-1]; array && !begun && c != ']' && !isSpace(c) {
			elements++
			begun = true
		}
		switch c {
		case '{', '[':
			inArray = append(inArray, c == '[')
			begun = false
		case '}', ']':
			inArray = inArray[:max(len(inArray)-1, 0)]
			begun = true // the array that ended is an element of the enclosing array
		case ',':
			if len(inArray) > 0 && inArray[len(inArray)-1] {
				elements++
			}
		case '"':
			i = endOfString(data, i)
		}
	}
	return elements
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// endOfString returns the index of the end of the string that begins at the given index.
func endOfString(data []byte, begin int) int {
	for i := begin + 1; ; {
		next := bytes.IndexAny(data[min(i, len(data)):], `"\`)
		if next < 0 {
			return len(data)
		}
		if i += next; data[i] == '"' {
			return i
		}
		i += 2 // an escaped character does not end the string
	}
}
