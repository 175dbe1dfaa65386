package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/decode"
)

// To converts a Go object to the type of the second version, and restores the values kept for that version. The result
// shares no memory with src. An error means: src was not decoded in full, or holds values outside JSON, such as an
// IntOrString of no type, or its annotation holds a value allowed in an object of D and impossible in Go types, such as
// a number of more than 32 bits. The error about a value is a Problem of package decode.
//
// Fields of the same type in both versions are copied; the rest takes the way of [JSON].
func To[D, S any](src *S) (*D, error) {
	k, to := kindOf(reflect.TypeFor[S](), reflect.TypeFor[D]())
	typed, isObject := any(src).(runtime.Object)
	if k == nil || !isObject {
		return nil, fmt.Errorf("%w: from %T to %T", ErrUnknown, src, new(D))
	}
	if err := k.undecodable(reflect.ValueOf(src).Elem(), to.other()); err != nil {
		return nil, err
	}
	dst := new(D)
	from, into := reflect.ValueOf(typed.DeepCopyObject()).Elem(), reflect.ValueOf(dst).Elem()
	meta := from.FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta)
	o := object{metadataKey: object{labelsKey: objectOf(meta.Labels), annotationsKey: objectOf(meta.Annotations)}}
	err := k.take(o, from, into, to)
	if err == nil {
		err = k.convert(o, to)
	}
	if err == nil {
		err = k.fill(into, o, to)
	}
	if err != nil {
		return nil, err
	}
	meta.Labels, meta.Annotations = textsOf(get(o, path{metadataKey, labelsKey})), textsOf(get(o, path{metadataKey, annotationsKey}))
	into.FieldByName("ObjectMeta").Set(reflect.ValueOf(meta))
	into.FieldByName("TypeMeta").Set(reflect.ValueOf(metav1.TypeMeta{APIVersion: k.apiVersion(to), Kind: k.name}))
	return dst, nil
}

// kindOf returns the kind with the two types, and the version of dst; nil for none.
func kindOf(src, dst reflect.Type) (*kind, version) {
	for _, k := range kinds {
		for _, to := range []version{alpha, beta} {
			if k.types[to] == dst && k.types[to.other()] == src {
				return k, to
			}
		}
	}
	return nil, alpha
}

// twin is a field of spec or status.
type twin struct {
	at    path
	index [2][]int // nil for a version without the field
	// same fields have the same type in both versions, and no move reads or changes them.
	same bool
	// omitted are zero values of fields that are no objects, or omitzero.
	omitted bool
}

// pair returns the fields of both types.
func (k *kind) pair() (twins []twin) {
	moved := slices.Concat(k.places[alpha], k.places[beta], k.reads)
	for _, name := range []string{"Spec", "Status"} {
		for v, t := range k.types {
			in, _ := t.FieldByName(name)
			for f := range in.Type.Fields() {
				at := path{jsonName(in), jsonName(f)}
				i := slices.IndexFunc(twins, func(t twin) bool { return slices.Equal(t.at, at) })
				if i < 0 {
					i = len(twins)
					twins = append(twins, twin{at: at})
				}
				twins[i].omitted = f.Type.Kind() != reflect.Struct || strings.Contains(f.Tag.Get("json"), "omitzero")
				twins[i].index[v] = append(slices.Clone(in.Index), f.Index...)
			}
		}
	}
	for i := range twins {
		t := &twins[i]
		if t.index[alpha] != nil && t.index[beta] != nil {
			a, b := k.types[alpha].FieldByIndex(t.index[alpha]), k.types[beta].FieldByIndex(t.index[beta])
			t.same = a.Type.ConvertibleTo(b.Type) && !slices.ContainsFunc(moved, func(p path) bool { return slices.Equal(p[:2], t.at) })
		}
	}
	return twins
}

// take copies the same fields, and puts the remaining fields into an object.
func (k *kind) take(o object, from, into reflect.Value, to version) error {
	for _, t := range k.twins {
		if t.index[to.other()] == nil {
			continue
		}
		value := from.FieldByIndex(t.index[to.other()])
		if t.same {
			target := into.FieldByIndex(t.index[to])
			if target.Type() != value.Type() {
				value = value.Convert(target.Type())
			}
			target.Set(value)
			continue
		}
		if value.IsZero() && t.omitted {
			continue
		}
		raw, err := json.Marshal(value.Interface())
		if err != nil {
			return fmt.Errorf("encoding %v: %w", t.at, err)
		}
		put(o, t.at, json.RawMessage(raw))
	}
	return nil
}

// fill decodes the fields that are not the same. An invalid field of the status stays out: the next write of the status
// corrects the field.
func (k *kind) fill(into reflect.Value, o object, to version) error {
	for _, t := range k.twins {
		value, written := parent(o, t.at)[t.at.last()]
		if t.same || t.index[to] == nil || !written {
			continue
		}
		err := decode.Object(encoded(value), into.FieldByIndex(t.index[to]).Addr().Interface())
		var problem decode.Problem
		if errors.As(err, &problem) && t.at[0] == specKey {
			problem = problem.In(t.at.String())
			problem.Path = strings.Replace(problem.Path, ".[", "[", 1)
			return problem
		}
	}
	return k.undecodable(into, to)
}

// remainder is where a Go type holds the parts left out by decoding a spec.
type remainder struct {
	around path
	index  []int
}

// remainders returns the remainders of a spec, and of specs inside.
func remainders(t reflect.Type, at path, index []int) (out []remainder) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || strings.HasPrefix(t.PkgPath(), "k8s.io/") {
		return nil
	}
	for f := range t.Fields() {
		to := append(slices.Clone(index), f.Index...)
		if f.Type == reflect.TypeFor[[]decode.Problem]() {
			out = append(out, remainder{at[:len(at)-1], to})
		} else {
			out = append(out, remainders(f.Type, append(slices.Clone(at), jsonName(f)), to)...)
		}
	}
	return out
}

// undecodable returns the first part of a spec left out by decoding, or nil.
func (k *kind) undecodable(obj reflect.Value, v version) error {
	for _, r := range k.remainders[v] {
		problems, err := obj.FieldByIndexErr(r.index)
		if err != nil || problems.Len() == 0 {
			continue // within an absent object
		}
		first := problems.Index(0).Interface().(decode.Problem)
		if len(r.around) > 0 {
			first = first.In(r.around.String())
		}
		return first
	}
	return nil
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func objectOf(texts map[string]string) object {
	o := object{}
	for key, value := range texts {
		o[key] = value
	}
	return o
}

func textsOf(value any) map[string]string {
	o, _ := value.(object)
	if len(o) == 0 {
		return nil
	}
	texts := map[string]string{}
	for key := range o {
		texts[key] = text(o, path{key})
	}
	return texts
}
