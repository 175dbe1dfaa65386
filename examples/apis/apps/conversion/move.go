package conversion

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation"
)

// version is one of the two versions of a kind.
type version int

const (
	alpha version = iota
	beta
)

func (v version) String() string { return [...]string{"v1alpha1", "v1beta1"}[v] }

func (v version) other() version { return 1 - v }

// move is a difference between the two versions of a kind. Arrays are by version.
type move struct {
	// to changes an object into the given version; nil changes nothing. Moves to v1alpha1 run in reverse order.
	to [2]func(object)
	// places are the parts of an object that the move reads or changes. Notes keep their differences.
	places [2][]path
	// takes decides about values from a note; nil asks for a value of the Go type.
	takes func(o object, value any) bool
}

// while restricts conversion to the given versions to objects with a condition.
func (m move) while(condition func(object) bool, to ...version) move {
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

// renamed is a field of two names, in an object or in all objects of a list. If both names exist, where the API server
// prunes, each becomes its counterpart, so nothing is lost.
func renamed(in, old, next string) move {
	p := steps(in)
	exchange := func(o object) {
		each(o, p, func(o object) {
			a, hasOld := o[old]
			b, hasNext := o[next]
			delete(o, old)
			delete(o, next)
			if hasOld {
				o[next] = a
			}
			if hasNext {
				o[old] = b
			}
		})
	}
	return move{to: [2]func(object){exchange, exchange}}
}

// betaOnly is a field without a place in v1alpha1. A note takes any value that the schema might accept.
func betaOnly(name string) move {
	p := steps(name)
	return move{
		to:     [2]func(object){alpha: func(o object) { drop(o, p) }},
		places: [2][]path{beta: {p}},
		takes:  func(object, any) bool { return true },
	}
}

// taking restricts a field to values with a condition.
func (m move) taking(condition func(o object, value any) bool) move {
	m.takes = condition
	return m
}

// withdrawn is a field of v1alpha1 that nothing reads.
func withdrawn(name string) move {
	p := steps(name)
	remove := func(o object) { drop(o, p) }
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

// replaced is a value of v1alpha1 unknown to v1beta1.
func replaced(name, old, next string) move {
	p := steps(name)
	replace := func(o object) {
		if get(o, p) == old {
			put(o, p, next)
		}
	}
	return move{to: [2]func(object){beta: replace}, places: [2][]path{{p[:2]}, {p[:2]}}}
}

// codec translates between a value and the text of an annotation or label.
type codec struct {
	// read returns nil for a text without a value.
	read func(text string) any
	// show returns "" for a value without a text.
	show func(value any) string
}

// shown is a field of v1beta1 that v1alpha1 shows as an annotation or label, exactly when the field has a value. A
// spelling of the same value is kept, and an unreadable text is foreign and stays. Objects of v1beta1 keep the key,
// without a meaning.
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

// moved is shown, and in v1beta1 the field alone has the value.
func moved(key path, name string, c codec) move {
	m, p := shown(key, name, c), steps(name)
	m.to[beta] = func(o object) {
		if c.toField(o, key, p) {
			drop(o, key)
		}
	}
	return m
}

func (c codec) value(o object, key path) any {
	if shown, ok := get(o, key).(string); ok {
		return c.read(shown)
	}
	return nil
}

func (c codec) toField(o object, key, p path) bool {
	value := c.value(o, key)
	return value != nil && (value == "" || put(o, p, value))
}

func (c codec) toKey(o object, key path, value any) {
	current, next := c.value(o, key), c.show(value)
	switch {
	case next == "" && current == nil, next != "" && current != nil && reflect.DeepEqual(current, c.read(next)):
	case next != "" && fits(o, key, next):
		put(o, key, next)
	default: // every stored object can be converted
		drop(o, key)
	}
}

// fits reports whether the API server would take a label or annotation.
func fits(o object, key path, next string) bool {
	if key[1] == labelsKey {
		return len(validation.IsValidLabelValue(next)) == 0
	}
	return hasRoom(o, key, next)
}
