package conversion

import (
	"reflect"
	"slices"
)

// These are the versions of a kind, as indexes of the arrays in kinds and moves.
const alpha, beta = 0, 1

// kind describes how objects of a kind are converted.
type kind struct {
	moves []move
	// settle runs before the moves. For a value that a v1alpha1 object may express in two ways, settle rewrites the
	// less usual way to the usual way. If settle is nil, there is no such value.
	settle func(object)
	// always lists the paths of JSON objects that conversion adds in both versions if the objects are missing.
	always []path
	// when lists, by version, the paths of values that determine the meaning of the fields whose paths are in
	// depends.
	when    [2][]path
	depends []string
	// takes reports whether the value of a field that only v1beta1 has (see betaOnly) may be restored from the
	// annotation. If takes is nil, every value of the Go type is accepted.
	takes func(o object, value any) bool

	// The function table sets the following fields.
	name        string
	apiVersions [2]string
	types       [2]reflect.Type
	notes       bool
	sections    []path
	places      [2][]path
}

// table completes the description of a kind from its Go types.
func table[Alpha, Beta any](group string, k kind) *kind {
	k.types = [2]reflect.Type{reflect.TypeFor[Alpha](), reflect.TypeFor[Beta]()}
	k.name, k.apiVersions = k.types[beta].Name(), [2]string{group + "/v1alpha1", group + "/v1beta1"}
	for v := range k.places {
		for i := range k.moves {
			k.places[v] = append(k.places[v], k.moves[i].places[v]...)
		}
		slices.SortFunc(k.places[v], slices.Compare[path])
		k.places[v] = slices.CompactFunc(k.places[v], slices.Equal[path])
	}
	k.notes = len(k.places[beta]) > 0
	k.sections = append([]path{{metadataKey}, {specKey}}, k.always...)
	if k.notes {
		k.sections = append(k.sections, path{metadataKey, labelsKey}, path{metadataKey, annotationsKey})
	}
	return &k
}

// BetaOnly reports whether v1alpha1 objects keep the value of a v1beta1 field only in the annotation.
func BetaOnly[T any](field string) bool {
	return slices.ContainsFunc(kinds[:], func(k *kind) bool {
		return k.types[beta] == reflect.TypeFor[T]() && k.place(steps(field), beta) != nil && k.place(steps(field), alpha) == nil
	})
}
