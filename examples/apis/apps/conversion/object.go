package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// object is an object of JSON. Values are decoded where a move reads, and raw elsewhere: the rest may hold fields
// unknown to the Go types, or invalid values. Keys have their exact case, and numbers all their digits.
type object = map[string]any

// path leads from an object to a part, by the keys of JSON.
type path []string

// steps returns the path of a field. Keys of annotations have dots, too.
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

// parse decodes the first level. An object of null is nil.
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

// open returns a value, with the first level decoded.
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

// parent returns the object around the end of a path, or nil for none.
func parent(o object, p path) object {
	for _, step := range p[:len(p)-1] {
		o, _ = open(o, step).(object)
	}
	return o
}

// section returns the JSON object at a path, and creates missing objects. An error means that a value on the path is no
// object.
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

// get returns a value, decoded in full, or nil for none.
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

// text returns a string, or "" for anything else.
func text(o object, p path) string {
	value, _ := get(o, p).(string)
	return value
}

// put writes a value, and reports whether all parents are objects.
func put(o object, p path, value any) bool {
	in, err := section(o, p[:len(p)-1])
	if err == nil {
		in[p.last()] = value
	}
	return err == nil
}

func drop(o object, p path) { delete(parent(o, p), p.last()) }

// each calls visit with every object at a path, also in lists.
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

// clone copies objects, and shares raw values and lists, which conversion replaces as a whole.
func clone(o object) object {
	out := maps.Clone(o)
	for key, value := range out {
		if inner, ok := value.(object); ok {
			out[key] = clone(inner)
		}
	}
	return out
}

// decoded returns nil for anything but JSON, as for null.
func decoded(raw []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

// encoded is for encodable values.
func encoded(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}
