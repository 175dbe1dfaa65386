package conversion

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// ErrNotCloneSet is wrapped by errors of [JSON] about objects or versions it does not convert.
var ErrNotCloneSet = errors.New("not a CloneSet of a known version")

// JSON converts a serialised CloneSet to the given apiVersion, "apps.kruise.io/v1alpha1" or "apps.kruise.io/v1beta1".
// An object that has that version already is returned as it is. Of metadata only labels and annotations can differ in
// the result; spec.template and spec.volumeClaimTemplates keep everything, including fields the Go types do not know.
func JSON(object []byte, apiVersion string) ([]byte, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(object, &meta); err != nil {
		return nil, fmt.Errorf("reading apiVersion: %w", err)
	}
	alpha, beta := v1alpha1.GroupVersion.String(), v1beta1.GroupVersion.String()
	switch {
	case meta.Kind != kindCloneSet:
		return nil, fmt.Errorf("%w: kind %q", ErrNotCloneSet, meta.Kind)
	case meta.APIVersion == apiVersion && (apiVersion == alpha || apiVersion == beta):
		return object, nil
	case meta.APIVersion == alpha && apiVersion == beta:
		return convertJSON(object, ToV1beta1)
	case meta.APIVersion == beta && apiVersion == alpha:
		return convertJSON(object, ToV1alpha1)
	}
	return nil, fmt.Errorf("%w: from %q to %q", ErrNotCloneSet, meta.APIVersion, apiVersion)
}

func convertJSON[S, D any](object []byte, convert func(*S) (*D, error)) ([]byte, error) {
	src := new(S)
	if err := json.Unmarshal(object, src); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	dst, err := convert(src)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(dst)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return graft(encoded, object)
}

// graft puts the parts of from that conversion must not touch into converted.
func graft(converted, from []byte) ([]byte, error) {
	result, err := split(converted)
	if err != nil {
		return nil, err
	}
	source, err := split(from)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"template", "volumeClaimTemplates"} {
		replace(result.spec, source.spec, key)
	}
	for _, key := range []string{"labels", "annotations"} {
		replace(source.metadata, result.metadata, key)
	}
	if result.all["spec"], err = json.Marshal(result.spec); err != nil {
		return nil, err
	}
	if result.all["metadata"], err = json.Marshal(source.metadata); err != nil {
		return nil, err
	}
	return json.Marshal(result.all)
}

type parts struct {
	all, metadata, spec map[string]json.RawMessage
}

func split(object []byte) (parts, error) {
	p := parts{metadata: map[string]json.RawMessage{}, spec: map[string]json.RawMessage{}}
	if err := json.Unmarshal(object, &p.all); err != nil {
		return p, err
	}
	for name, target := range map[string]*map[string]json.RawMessage{"metadata": &p.metadata, "spec": &p.spec} {
		if raw, ok := p.all[name]; ok {
			if err := json.Unmarshal(raw, target); err != nil {
				return p, fmt.Errorf("%s: %w", name, err)
			}
			if *target == nil { // JSON null
				*target = map[string]json.RawMessage{}
			}
		}
	}
	return p, nil
}

// replace makes dst's key what it is in src.
func replace(dst, src map[string]json.RawMessage, key string) {
	value, ok := src[key]
	if !ok {
		delete(dst, key)
		return
	}
	dst[key] = value
}
