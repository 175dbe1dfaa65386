package conversion

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation"
)

// move is a difference between the two versions of a kind.
type move struct {
	// to contains a function for each version, which changes an object to that version; nil changes nothing. For a
	// conversion to v1alpha1, the moves are applied in reverse order.
	to [2]func(object)
	// places lists the paths of the parts that the move reads or changes, by version. Values of these parts that the
	// conversion would lose are kept in the note, the annotation of package conversion.
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

// renamed returns the move of a field whose name differs between the versions, in an object or in each object of a
// list. If an object has both names, the values are exchanged, so no value is lost even where the API server prunes
// unknown fields.
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

// betaOnly returns the move of fields that v1alpha1 does not have. The note may keep any value that the schema might
// accept.
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

// withdrawn returns a move that drops fields of v1alpha1, because nothing reads the fields, or because an earlier move
// has read the fields. The fields do not exist in v1beta1.
func withdrawn(names ...string) move {
	remove := betaOnly(names...).to[alpha]
	return move{to: [2]func(object){remove, remove}}
}

// opposite returns the move of a boolean that has the opposite meaning in v1beta1.
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

// replaced returns the move for a field whose value old does not exist in v1beta1: v1beta1 has the value next instead.
func replaced[T ~string](name string, old, next T) move {
	p := steps(name)
	replace := func(o object) {
		if text(o, p) == string(old) {
			put(o, p, string(next))
		}
	}
	return move{to: [2]func(object){beta: replace}, places: [2][]path{{p[:2]}, {p[:2]}}}
}

// shown returns the move of a v1beta1 field whose value v1alpha1 shows in an annotation or label, if the field has a
// value. A text with another notation of the same value is kept, and so is a text that cannot be read, because the text
// may belong to somebody else. Objects of v1beta1 keep the annotation or label, but it has no effect there.
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

// moved returns the same move as shown, but v1beta1 objects do not keep the annotation or label.
func moved(key path, name string, c codec) move {
	m, p := shown(key, name, c), steps(name)
	m.to[beta] = func(o object) {
		if c.toField(o, key, p) {
			drop(o, key)
		}
	}
	return m
}

// codec converts between a value and the text of an annotation or label.
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
	default: // an error is not possible, because every stored object must be convertible
		drop(o, key)
	}
}
