package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// object is a JSON object that is decoded only as far as needed. Only the values that a move reads are decoded. All
// other values stay undecoded, because they may contain fields that the Go types lack, or invalid values. The case of
// keys matters, and numbers keep all digits.
type object = map[string]any

// path is a list of JSON keys that leads from an object to a part of the object.
type path []string

// steps splits the name of a field at the dots, and returns the path. Do not use steps for annotations, whose keys
// contain dots.
func steps(name string) path { return strings.Split(name, ".") }

func annotation(key string) path { return path{metadataKey, annotationsKey, key} }

func label(key string) path { return path{metadataKey, labelsKey, key} }

func (p path) String() string { return strings.Join(p, ".") }

func (p path) last() string { return p[len(p)-1] }

const (
	metadataKey    = "metadata"
	labelsKey      = "labels"
	annotationsKey = "annotations"
	specKey        = "spec"
	statusKey      = "status"
)

// parse decodes the first level of an object. For null the result is nil.
func parse(raw []byte) (object, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, err
	}
	o := make(object, len(fields))
	for key, value := range fields {
		o[key] = value
	}
	return o, nil
}

// open returns the value of a key; the first level of the value is decoded.
func open(o object, key string) any {
	if raw, isRaw := o[key].(json.RawMessage); isRaw {
		if inner, err := parse(raw); err == nil && inner != nil {
			o[key] = inner
		} else {
			o[key] = decoded(raw)
		}
	}
	return o[key]
}

// parent returns the object in which a path ends, or nil.
func parent(o object, p path) object {
	for _, step := range p[:len(p)-1] {
		o, _ = open(o, step).(object)
	}
	return o
}

// section returns the JSON object at a path, and creates objects that are missing. An error means that a value on the
// path is not an object.
func section(o object, p path) (object, error) {
	for i, step := range p {
		if open(o, step) == nil {
			o[step] = object{}
		}
		inner, ok := o[step].(object)
		if !ok {
			return nil, fmt.Errorf("decoding: json: %v must be an object, and is %.60s", p[:i+1], encoded(o[step]))
		}
		o = inner
	}
	return o, nil
}

// get returns the value at a path, completely decoded, or nil.
func get(o object, p path) any {
	in := parent(o, p)
	switch value := in[p.last()].(type) {
	case json.RawMessage:
		in[p.last()] = decoded(value)
	case object:
		for key := range value {
			get(value, path{key})
		}
	}
	return in[p.last()]
}

// text returns the string at a path, or "" for any other value.
func text(o object, p path) string {
	value, _ := get(o, p).(string)
	return value
}

// put sets the value at a path. The result is false if a parent is not an object.
func put(o object, p path, value any) bool {
	in, err := section(o, p[:len(p)-1])
	if err == nil {
		in[p.last()] = value
	}
	return err == nil
}

func drop(o object, p path) { delete(parent(o, p), p.last()) }

// each calls visit with every object at a path, including the elements of lists.
func each(o object, p path, visit func(object)) {
	if len(p) == 0 {
		visit(o)
		return
	}
	switch next := open(o, p[0]).(type) {
	case object:
		each(next, p[1:], visit)
	case []any:
		for _, element := range next {
			if inner, ok := element.(object); ok {
				each(inner, p[1:], visit)
			}
		}
	}
}

// clone copies nested objects. Raw values and lists are shared, because conversion never modifies them in place.
func clone(o object) object {
	out := maps.Clone(o)
	for key, value := range out {
		if inner, ok := value.(object); ok {
			out[key] = clone(inner)
		}
	}
	return out
}

// decoded decodes a JSON value. The result is nil for null and for invalid JSON.
func decoded(raw []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

// encoded returns a value as JSON. Callers pass only values for which an error is impossible.
func encoded(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}
