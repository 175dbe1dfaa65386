package conversion

import (
	"reflect"
	"slices"
)

// The versions of a kind. Arrays of kinds and moves are by version.
const alpha, beta = 0, 1

// kind is the description of a kind.
type kind struct {
	moves []move
	// settle gives a v1alpha1 object with a second spelling of a value the usual spelling, which counts from then on. Nil
	// for none.
	settle func(object)
	// always are objects of both versions that conversion adds where absent.
	always []path
	// when are values that decide the meaning of the fields named in depends, below spec.
	when    [2][]path
	depends []string
	// takes reports whether the value of a betaOnly field may be restored from a note; nil accepts all values that the
	// Go type can hold.
	takes func(o object, value any) bool

	// The table derives the rest.
	name        string
	apiVersions [2]string
	types       [2]reflect.Type
	notes       bool
	sections    []path
	places      [2][]path
}

// table completes the description of a kind by its Go types.
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

// BetaOnly reports whether a field of a v1beta1 type is in the annotation alone on v1alpha1 objects.
func BetaOnly[T any](field string) bool {
	return slices.ContainsFunc(kinds[:], func(k *kind) bool {
		return k.types[beta] == reflect.TypeFor[T]() && k.place(steps(field), beta) != nil && k.place(steps(field), alpha) == nil
	})
}
