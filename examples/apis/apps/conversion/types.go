package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	dst := new(D)
	k, to := kindOf(reflect.TypeFor[D]())
	typed, isObject := any(src).(runtime.Object)
	if k == nil || k.types[1-to] != reflect.TypeFor[S]() || !isObject {
		return nil, fmt.Errorf("%w: from %T to %T", ErrUnknown, src, dst)
	}
	return dst, k.fill(reflect.ValueOf(dst).Elem(), reflect.ValueOf(typed.DeepCopyObject()).Elem(), to)
}

// fill converts from into an empty object, and takes the memory of from.
func (k *kind) fill(into, from reflect.Value, to int) error {
	if problem := undecodable(from.FieldByName("Spec")); problem != nil {
		return problem.In(specKey)
	}
	meta := from.FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta)
	o := object{metadataKey: object{labelsKey: objectOf(meta.Labels), annotationsKey: objectOf(meta.Annotations)}}
	for _, f := range k.fields {
		if f.index[1-to] == nil {
			continue
		}
		switch value := from.FieldByIndex(f.index[1-to]); {
		case f.same:
			target := into.FieldByIndex(f.index[to])
			if target.Type() != value.Type() { // a conversion copies
				value = value.Convert(target.Type())
			}
			target.Set(value)
		case !f.omitted || !value.IsZero():
			raw, err := json.Marshal(value.Interface())
			if err != nil {
				return fmt.Errorf("encoding %v: %w", f.at, err)
			}
			put(o, f.at, json.RawMessage(raw))
		}
	}
	if err := k.convert(o, to); err != nil {
		return err
	}
	meta.Labels, meta.Annotations = textsOf(o, labelsKey), textsOf(o, annotationsKey)
	into.FieldByName("ObjectMeta").Set(reflect.ValueOf(meta))
	into.FieldByName("TypeMeta").Set(reflect.ValueOf(metav1.TypeMeta{APIVersion: k.apiVersions[to], Kind: k.name}))
	return k.decode(into, o, to)
}

func objectOf(texts map[string]string) object {
	o := object{}
	for key, value := range texts {
		o[key] = value
	}
	return o
}

func textsOf(o object, name string) (texts map[string]string) {
	for key, value := range parent(o, path{metadataKey, name, ""}) {
		if texts == nil {
			texts = map[string]string{}
		}
		texts[key] = letters(value)
	}
	return texts
}

// decode reads the fields that are not the same. An invalid field of the status stays out: the next write of the status
// corrects the field.
func (k *kind) decode(into reflect.Value, o object, to int) error {
	for _, f := range k.fields {
		value, written := parent(o, f.at)[f.at.last()]
		if f.same || f.index[to] == nil || !written {
			continue
		}
		var problem decode.Problem
		err := decode.Object(encoded(value), into.FieldByIndex(f.index[to]).Addr().Interface())
		if errors.As(err, &problem) && f.at[0] == specKey {
			problem = problem.In(f.at.String())
			problem.Path = strings.Replace(problem.Path, ".[", "[", 1)
			return problem
		}
	}
	if problem := undecodable(into.FieldByName("Spec")); problem != nil {
		return problem.In(specKey)
	}
	return nil
}

// undecodable returns the first part of a spec left out by decoding, or of a spec inside, with the path from the spec.
func undecodable(v reflect.Value) *decode.Problem {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || strings.HasPrefix(v.Type().PkgPath(), "k8s.io/") {
		return nil
	}
	for i := range v.NumField() {
		if v.Field(i).Type() == reflect.TypeFor[[]decode.Problem]() && v.Field(i).Len() > 0 {
			first := v.Field(i).Index(0).Interface().(decode.Problem)
			_, first.Path, _ = strings.Cut(first.Path, ".")
			return &first
		}
		if problem := undecodable(v.Field(i)); problem != nil {
			return new(problem.In(jsonName(v.Type().Field(i))))
		}
	}
	return nil
}
