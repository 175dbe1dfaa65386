package conversion

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/workloadkit/workloadkit/decode"
)

// To converts a Go object to the type of the second version as [JSON] does. The result shares no memory with src. An
// error means: src was not decoded in full, or holds values outside JSON, such as an IntOrString of no type, or its
// annotation holds a value allowed in an object of D and impossible in Go types, such as a number of more than 32 bits.
// The error about a value is a Problem of package decode.
func To[D, S any](src *S) (*D, error) {
	dst := new(D)
	k, to := kindOf(reflect.TypeFor[D]())
	if k == nil || k.types[1-to] != reflect.TypeFor[S]() {
		return nil, fmt.Errorf("%w: from %T to %T", ErrUnknown, src, dst)
	}
	if problem := undecodable(reflect.ValueOf(src).Elem().FieldByName("Spec")); problem != nil {
		return nil, problem.In(specKey)
	}
	raw, err := json.Marshal(src)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", k.name, err)
	}
	o, err := parse(raw)
	if err == nil {
		err = k.convert(o, to)
	}
	if err != nil {
		return nil, err
	}
	o["kind"] = k.name
	if err := decode.Object(encoded(o), dst); err != nil {
		return nil, err
	}
	if problem := undecodable(reflect.ValueOf(dst).Elem().FieldByName("Spec")); problem != nil {
		return nil, problem.In(specKey)
	}
	return dst, nil
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
