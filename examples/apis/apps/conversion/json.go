package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// ErrUnknown is wrapped by errors of [JSON] and [To] about unknown kinds and versions.
var ErrUnknown = errors.New("not of a kind and version that is converted here")

// kind is the description of a kind.
type kind struct {
	group string
	moves []move
	// always are objects of both versions that conversion adds where absent.
	always []path
	// when are values that decide the meaning of the fields named in depends, below spec.
	when    [2][]path
	depends []string
	// reads are further fields in conditions of moves.
	reads []path

	// The table derives the rest.
	name   string
	types  [2]reflect.Type
	places [2][]path
	twins  []twin

	remainders [2][]remainder
}

// table completes the description of a kind by its Go types.
func table[Alpha, Beta any](k kind) *kind {
	k.types = [2]reflect.Type{reflect.TypeFor[Alpha](), reflect.TypeFor[Beta]()}
	k.name = k.types[beta].Name()
	for v := range k.places {
		for i := range k.moves {
			k.places[v] = append(k.places[v], k.moves[i].places[v]...)
		}
		slices.SortFunc(k.places[v], slices.Compare[path])
		k.places[v] = slices.CompactFunc(k.places[v], slices.Equal[path])
	}
	k.twins = k.pair()
	for v, t := range k.types {
		spec, _ := t.FieldByName("Spec")
		k.remainders[v] = remainders(spec.Type, path{specKey}, spec.Index)
	}
	return &k
}

func (k *kind) apiVersion(v version) string { return k.group + "/" + v.String() }

// has returns the version of an apiVersion.
func (k *kind) has(apiVersion string) (version, bool) {
	for _, v := range []version{alpha, beta} {
		if apiVersion == k.apiVersion(v) {
			return v, true
		}
	}
	return alpha, false
}

// JSON converts a serialised object of a kind with two versions to the given apiVersion, v1alpha1 or v1beta1 of the
// object's group. An object that has the version already is returned as it is. Only the parts named in the kind's
// table are read, by the exact case of their keys; everything else is in the result as it was.
func JSON(raw []byte, apiVersion string) ([]byte, error) {
	o, k, from, err := read(raw)
	if err != nil {
		return nil, err
	}
	to, known := k.has(apiVersion)
	if !known {
		return nil, fmt.Errorf("%w: from %q to %q", ErrUnknown, k.apiVersion(from), apiVersion)
	}
	if from == to {
		return raw, nil
	}
	if err := k.convert(o, to); err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// read opens an object of a known kind and version.
func read(raw []byte) (object, *kind, version, error) {
	o, err := parse(raw)
	if err != nil {
		return nil, nil, alpha, fmt.Errorf("reading the object: %w", err)
	}
	name, apiVersion := text(o, path{"kind"}), text(o, path{"apiVersion"})
	group, _, _ := strings.Cut(apiVersion, "/")
	for _, k := range kinds {
		if k.name != name || k.group != group {
			continue
		}
		if v, known := k.has(apiVersion); known {
			return o, k, v, nil
		}
	}
	return nil, nil, alpha, fmt.Errorf("%w: kind %q of %q", ErrUnknown, name, apiVersion)
}

// convert changes an object of the second version.
func (k *kind) convert(o object, to version) error {
	from, notes := to.other(), len(k.places[alpha])+len(k.places[beta]) > 0
	parts := append([]path{{metadataKey}, {specKey}}, k.always...)
	if notes {
		parts = append(parts, path{metadataKey, labelsKey}, path{metadataKey, annotationsKey})
	}
	for _, part := range parts {
		if _, err := section(o, part); err != nil {
			return err
		}
	}
	o["apiVersion"] = k.apiVersion(to)
	if !notes {
		k.move(o, to)
		return nil
	}
	for _, name := range []string{labelsKey, annotationsKey} {
		get(o, path{metadataKey, name})
	}
	kept := takeNote(o, from)
	drop(o, noteOn(to))
	truth := clone(o)
	k.move(o, to)
	k.restore(kept, o, to)
	back := clone(o)
	k.move(back, from)
	note{When: k.circumstances(back, from), Fields: k.differences(truth, back, from)}.write(o, to)
	for _, name := range []string{labelsKey, annotationsKey} {
		if left, _ := get(o, path{metadataKey, name}).(object); len(left) == 0 {
			drop(o, path{metadataKey, name})
		}
	}
	return nil
}

// move applies the moves, without any note.
func (k *kind) move(o object, to version) {
	for i := range k.moves {
		if to == alpha {
			i = len(k.moves) - 1 - i
		}
		if change := k.moves[i].to[to]; change != nil {
			change(o)
		}
	}
}
