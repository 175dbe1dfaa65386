package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ErrUnknown is wrapped by errors of [JSON] about an unknown kind or version.
var ErrUnknown = errors.New("not of a kind and version that is converted here")

// JSON converts a serialised object of a kind with two versions to the given apiVersion, v1alpha1 or v1beta1 of the
// object's group. An object that has this version already is returned unchanged. Only the parts named in the kind's
// table are read, and the case of their keys matters. All remaining parts stay unchanged.
func JSON(raw []byte, apiVersion string) ([]byte, error) {
	o, k, from, err := read(raw)
	if err != nil {
		return nil, err
	}
	to := slices.Index(k.apiVersions[:], apiVersion)
	if to < 0 {
		return nil, fmt.Errorf("%w: from %q to %q", ErrUnknown, k.apiVersions[from], apiVersion)
	}
	if from == to {
		return raw, nil
	}
	if err := k.convert(o, to); err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// read decodes the first level of an object, and finds the kind and the version. The error is ErrUnknown for any other
// kind or version.
func read(raw []byte) (o object, k *kind, version int, err error) {
	if o, err = parse(raw); err != nil {
		return nil, nil, 0, fmt.Errorf("reading the object: %w", err)
	}
	name, apiVersion := text(o, path{"kind"}), text(o, path{"apiVersion"})
	for _, k := range kinds {
		if version := slices.Index(k.apiVersions[:], apiVersion); version >= 0 && k.name == name {
			return o, k, version, nil
		}
	}
	return nil, nil, 0, fmt.Errorf("%w: kind %q of %q", ErrUnknown, name, apiVersion)
}

// convert converts an object to the version to. The object must have the other version.
func (k *kind) convert(o object, to int) error {
	for _, part := range k.sections {
		if _, err := section(o, part); err != nil {
			return err
		}
	}
	o["apiVersion"] = k.apiVersions[to]
	if to == beta && k.settle != nil {
		k.settle(o)
	}
	if !k.notes {
		k.move(o, to)
		return nil
	}
	from := 1 - to
	get(o, path{metadataKey, labelsKey})
	get(o, path{metadataKey, annotationsKey})
	kept := takeNote(o, from)
	drop(o, noteOn(to))
	truth := clone(o)
	k.move(o, to)
	k.restore(kept, o, to)
	back := clone(o)
	k.move(back, from)
	note{When: k.circumstances(back, from), Fields: k.differences(truth, back, from)}.write(o, to)
	for _, texts := range []path{{metadataKey, labelsKey}, {metadataKey, annotationsKey}} {
		if left, _ := get(o, texts).(object); len(left) == 0 {
			drop(o, texts)
		}
	}
	return nil
}

// move applies the moves of a kind, without the annotation that keeps lost values.
func (k *kind) move(o object, to int) {
	for i := range k.moves {
		if to == alpha {
			i = len(k.moves) - 1 - i
		}
		if change := k.moves[i].to[to]; change != nil {
			change(o)
		}
	}
}
