package conversion

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation"
)

// move is a difference between the two versions of a kind.
type move struct {
	// to has a function for each version, which changes an object to the version; nil changes nothing. Moves to
	// v1alpha1 run in reverse order.
	to [2]func(object)
	// places are the paths of the parts that the move reads or changes, by version. A note keeps the values of these
	// parts that the conversion would lose.
	places [2][]path
}

// while returns a move that changes only objects for which the condition is true, for conversions to the given
// versions.
func (m move) while(condition func(object) bool, to ...int) move {
	for _, v := range to {
		convert := m.to[v]
		m.to[v] = func(o object) {
			if condition(o) {
				convert(o)
			}
		}
	}
	return m
}

// renamed is a field with a different name in each version, in an object or in all objects of a list. If an object has
// both names, renamed exchanges the names, so no value is lost even where the API server prunes unknown fields.
func renamed(in, old, next string) move {
	exchange := func(o object) {
		a, b := o[old], o[next]
		delete(o, old)
		delete(o, next)
		if a != nil {
			o[next] = a
		}
		if b != nil {
			o[old] = b
		}
	}
	everywhere := func(o object) { each(o, steps(in), exchange) }
	return move{to: [2]func(object){everywhere, everywhere}}
}

// betaOnly are fields that v1alpha1 does not have. A note takes any value that the schema might accept.
func betaOnly(names ...string) (m move) {
	for _, name := range names {
		m.places[beta] = append(m.places[beta], steps(name))
	}
	m.to[alpha] = func(o object) {
		for _, p := range m.places[beta] {
			drop(o, p)
		}
	}
	return m
}

// withdrawn are fields of v1alpha1 that v1beta1 does not have, and whose values are dropped: nothing reads these
// fields, or a move before has read the fields.
func withdrawn(names ...string) move {
	remove := betaOnly(names...).to[alpha]
	return move{to: [2]func(object){remove, remove}}
}

// opposite is a boolean of v1alpha1 with the opposite meaning in v1beta1.
func opposite(old, next string) move {
	a, b := steps(old), steps(next)
	negate := func(from, to path) func(object) {
		return func(o object) {
			value := get(o, from)
			drop(o, from)
			if value != true {
				put(o, to, true)
			}
		}
	}
	return move{to: [2]func(object){negate(b, a), negate(a, b)}, places: [2][]path{{a[:2]}, {b[:2]}}}
}

// replaced is a value of v1alpha1 that v1beta1 does not have; v1beta1 has the value next in its place.
func replaced[T ~string](name string, old, next T) move {
	p := steps(name)
	replace := func(o object) {
		if text(o, p) == string(old) {
			put(o, p, string(next))
		}
	}
	return move{to: [2]func(object){beta: replace}, places: [2][]path{{p[:2]}, {p[:2]}}}
}

// shown is a field of v1beta1 whose value is in an annotation or label of v1alpha1, if the field has a value. A text
// with a different notation of the same value is kept, and so is a text that cannot be read, because the text may
// belong to somebody else. Objects of v1beta1 keep the key, but the key has no effect there.
func shown(key path, name string, c codec) move {
	p := steps(name)
	return move{
		to: [2]func(object){
			alpha: func(o object) {
				c.toKey(o, key, get(o, p))
				drop(o, p)
			},
			beta: func(o object) { c.toField(o, key, p) },
		},
		places: [2][]path{{key}, {key, p[:2]}},
	}
}

// moved is like shown, but v1beta1 objects do not keep the key.
func moved(key path, name string, c codec) move {
	m, p := shown(key, name, c), steps(name)
	m.to[beta] = func(o object) {
		if c.toField(o, key, p) {
			drop(o, key)
		}
	}
	return m
}

// codec translates between a value and the text of an annotation or label.
type codec struct {
	// read returns the value of a text, or nil if the text has no value.
	read func(text string) any
	// show returns the text for a value, or "" if the value has no text.
	show func(value any) string
}

func (c codec) current(o object, key path) any {
	if shown, ok := get(o, key).(string); ok {
		return c.read(shown)
	}
	return nil
}

func (c codec) toField(o object, key, p path) bool {
	value := c.current(o, key)
	return value != nil && (value == "" || put(o, p, value))
}

func (c codec) toKey(o object, key path, value any) {
	current, next := c.current(o, key), c.show(value)
	fits := next != "" && hasRoom(o, key, next)
	if key[1] == labelsKey {
		fits = next != "" && len(validation.IsValidLabelValue(next)) == 0
	}
	switch {
	case next == "" && current == nil, next != "" && reflect.DeepEqual(current, value):
	case fits:
		put(o, key, next)
	default: // an error would be wrong, because every stored object must be convertible
		drop(o, key)
	}
}
