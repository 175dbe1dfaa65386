package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
)

// ErrUnknown is wrapped by errors of [JSON] about unknown kinds and versions.
var ErrUnknown = errors.New("not of a kind and version that is converted here")

// kind is the description of a kind for [JSON] and [Check].
type kind struct {
	group           string
	toAlpha, toBeta func(object []byte) ([]byte, error)
	// specKeys are the keys of a spec that conversion reads and may change; metadataKeys are the same for all kinds.
	specKeys []string
	// parts returns the parts of an object that conversion could lose, by path.
	parts func(object []byte, apiVersion string) (map[string]any, error)
}

func kindNamed(name string) (kind, bool) {
	switch name {
	case kindAdvancedCronJob:
		return kind{apps.Group, cronJobToAlpha, cronJobToBeta, []string{templateKey}, cronJobParts}, true
	case kindCloneSet:
		return kind{apps.Group, cloneSetToAlpha, cloneSetToBeta, specKeys[:], cloneSetParts}, true
	case kindBroadcastJob:
		return kind{apps.Group, broadcastJobToAlpha, broadcastJobToBeta, nil, broadcastJobParts}, true
	case kindStatefulSet:
		return kind{apps.Group, statefulSetToAlpha, statefulSetToBeta, StatefulSetFieldsOfV1beta1(), statefulSetParts}, true
	case kindContainerRecreateRequest:
		return kind{apps.Group, requestToAlpha, requestToBeta, nil, requestParts}, true
	case kindPersistentPodState:
		return kind{apps.Group, podStateToAlpha, podStateToBeta, nil, podStateParts}, true
	case kindResourceDistribution:
		return kind{apps.Group, distributionToAlpha, distributionToBeta, nil, distributionParts}, true
	case kindSidecarSet:
		return kind{apps.Group, sidecarSetToAlpha, sidecarSetToBeta, sidecarSetKeys(), sidecarSetParts}, true
	case kindDaemonSet: // has the same places as a CloneSet
		return kind{apps.Group, daemonSetToAlpha, daemonSetToBeta, specKeys[:], daemonSetParts}, true
	case kindPodUnavailableBudget:
		return kind{policy.Group, budgetToAlpha, budgetToBeta, budgetKeys(), budgetParts}, true
	}
	return kind{}, false
}

// versions are the two of the kind.
func (k kind) versions() (alpha, beta string) {
	return k.group + "/" + v1alpha1.GroupVersion.Version, k.group + "/" + v1beta1.GroupVersion.Version
}

// JSON converts a serialised AdvancedCronJob, BroadcastJob, CloneSet, ContainerRecreateRequest, StatefulSet, DaemonSet,
// SidecarSet, ResourceDistribution, PersistentPodState or PodUnavailableBudget to the given apiVersion, v1alpha1 or
// v1beta1 of its group. An object that has that version already is returned as it is. Of CloneSets and DaemonSets,
// labels, annotations, spec.scaleStrategy and spec.updateStrategy are read, and of a DaemonSet the name that the
// revision has in the status; of a StatefulSet annotations and the fields of spec that only v1beta1 has; of a
// ContainerRecreateRequest annotations and the fields of the status that only v1beta1 has; of a SidecarSet labels,
// annotations, and namespace, namespaceSelector and customVersion of spec; of a ResourceDistribution the targets and
// the conditions of the status; of a PersistentPodState the two topologies of spec; of a PodUnavailableBudget
// annotations and the fields of spec that only v1beta1 has. Keys are read by their exact case; everything else is in
// the result as it was.
func JSON(object []byte, apiVersion string) ([]byte, error) {
	var meta metav1.TypeMeta
	if err := utiljson.Unmarshal(object, &meta); err != nil {
		return nil, fmt.Errorf("reading apiVersion: %w", err)
	}
	k, ok := kindNamed(meta.Kind)
	alpha, beta := k.versions()
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: kind %q", ErrUnknown, meta.Kind)
	case meta.APIVersion == apiVersion && (apiVersion == alpha || apiVersion == beta):
		return object, nil
	case meta.APIVersion == alpha && apiVersion == beta:
		return k.toBeta(object)
	case meta.APIVersion == beta && apiVersion == alpha:
		return k.toAlpha(object)
	}
	return nil, fmt.Errorf("%w: from %q to %q", ErrUnknown, meta.APIVersion, apiVersion)
}

func cloneSetToBeta(object []byte) ([]byte, error) {
	return convertJSON(object, v1beta1.GroupVersion.String(), specKeys[:], ToV1beta1)
}

func cloneSetToAlpha(object []byte) ([]byte, error) {
	return convertJSON(object, v1alpha1.GroupVersion.String(), specKeys[:], ToV1alpha1)
}

// Keys read and written by conversion of a CloneSet, below metadata and spec. Everything else is the same in both
// versions and is carried over without decoding: the rest may hold fields unknown to the Go types, or invalid values.
var (
	metadataKeys = [...]string{"labels", "annotations"}
	specKeys     = [...]string{scaleKey, updateKey}
)

func convertJSON[S, D any](object []byte, apiVersion string, keys []string, convert func(*S) (*D, error)) ([]byte, error) {
	whole, src, err := read[S](object, keys)
	if err != nil {
		return nil, err
	}
	dst, err := convert(src)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(dst)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	converted, err := split(encoded)
	if err != nil {
		return nil, err
	}
	if err := convertEmpty[S, D](whole, src, converted, apiVersion, keys); err != nil {
		return nil, fmt.Errorf("keeping empty values: %w", err)
	}
	return whole.with(converted, apiVersion, keys)
}

// read returns an object, and the part read by conversion as its Go type.
func read[S any](object []byte, keys []string) (parts, *S, error) {
	whole, err := split(object)
	if err != nil {
		return whole, nil, err
	}
	part, err := json.Marshal(map[string]any{metadataKey: chosen(whole.metadata, metadataKeys[:]), specKey: chosen(whole.spec, keys)})
	if err != nil {
		return whole, nil, err
	}
	src := new(S)
	err = utiljson.Unmarshal(part, src)
	if err != nil || len(undecodable(src)) > 0 {
		// A single object from past admission must not keep the rest from being converted.
		src = new(S)
		err = utiljson.Unmarshal(withSmallNumbers(part), src)
	}
	if err != nil {
		return whole, nil, fmt.Errorf("decoding: %w", err)
	}
	return whole, src, nil
}

// undecodable returns the parts of an object left out by decoding.
func undecodable(obj any) []decode.Problem {
	switch obj := obj.(type) {
	case *v1beta1.CloneSet:
		return obj.Spec.Undecodable
	case *v1beta1.DaemonSet:
		return obj.Spec.Undecodable
	case *v1beta1.SidecarSet:
		return obj.Spec.Undecodable
	}
	return nil
}

// withSmallNumbers replaces numbers beyond 32 bits by the nearest 32-bit number. The schema sets no size for a number
// that may be a percentage, and all numbers of a strategy have 32 bits.
func withSmallNumbers(encoded []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	var tree any
	if decoder.Decode(&tree) != nil {
		return encoded // the decoder reports the fault
	}
	out, err := json.Marshal(smallNumbers(tree))
	if err != nil {
		return encoded
	}
	return out
}

func smallNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = smallNumbers(value[key])
		}
	case []any:
		for i := range value {
			value[i] = smallNumbers(value[i])
		}
	case json.Number:
		if n, err := value.Float64(); err == nil && (n > math.MaxInt32 || n < math.MinInt32) {
			return int32(min(max(n, math.MinInt32), math.MaxInt32))
		}
	}
	return value
}

// parts are an object with its metadata and spec taken apart. Keys stay as written: no different case matches.
type parts struct {
	all, metadata, spec map[string]json.RawMessage
}

func split(object []byte) (parts, error) {
	p := parts{metadata: map[string]json.RawMessage{}, spec: map[string]json.RawMessage{}}
	if err := json.Unmarshal(object, &p.all); err != nil {
		return p, err
	}
	for name, target := range map[string]*map[string]json.RawMessage{metadataKey: &p.metadata, specKey: &p.spec} {
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

// chosen returns only the given keys.
func chosen(from map[string]json.RawMessage, keys []string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, key := range keys {
		replace(out, from, key)
	}
	return out
}

// with returns the object in the second version, with the result of conversion.
func (p parts) with(converted parts, apiVersion string, keys []string) ([]byte, error) {
	for _, key := range metadataKeys {
		replace(p.metadata, converted.metadata, key)
	}
	for _, key := range keys {
		replace(p.spec, converted.spec, key)
	}
	return p.in(apiVersion)
}

// in returns the object put together again, in a version.
func (p parts) in(apiVersion string) ([]byte, error) {
	var err error
	for name, value := range map[string]any{"apiVersion": apiVersion, metadataKey: p.metadata, specKey: p.spec} {
		if p.all[name], err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return json.Marshal(p.all)
}

// replace copies a key from src to dst, or removes the key.
func replace(dst, src map[string]json.RawMessage, key string) {
	value, ok := src[key]
	if !ok {
		delete(dst, key)
		return
	}
	dst[key] = value
}
