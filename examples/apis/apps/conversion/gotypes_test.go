package conversion_test

import (
	"encoding/json"
	"path"
	"reflect"
	"strings"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
)

// to converts a Go object of a kind to the type of the second version.
func to[D, S any](src *S) (*D, error) {
	raw, err := json.Marshal(src)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	fields["kind"], fields["apiVersion"] = quoted(reflect.TypeFor[S]().Name()), quoted(apiVersion[S]())
	if raw, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	if raw, err = conversion.JSON(raw, apiVersion[D]()); err != nil {
		return nil, err
	}
	dst := new(D)
	if err := decode.Object(raw, dst); err != nil {
		return nil, err
	}
	_, err = json.Marshal(dst) // an error for an object with undecodable fields
	return dst, err
}

func quoted(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }

func apiVersion[T any]() string {
	pkg := reflect.TypeFor[T]().PkgPath()
	if strings.Contains(pkg, "/policy/") {
		return policy.Group + "/" + path.Base(pkg)
	}
	return apps.Group + "/" + path.Base(pkg)
}
