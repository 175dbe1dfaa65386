package conversion

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const kindPersistentPodState = "PersistentPodState"

// PersistentPodStateToV1beta1 converts. The result shares no memory with src.
func PersistentPodStateToV1beta1(src *v1alpha1.PersistentPodState) (*v1beta1.PersistentPodState, error) {
	return throughJSON[v1beta1.PersistentPodState](src, kindPersistentPodState, v1alpha1.GroupVersion.String(), podStateToBeta)
}

// PersistentPodStateToV1alpha1 converts. The result shares no memory with src. An error means: src was not decoded in
// full.
func PersistentPodStateToV1alpha1(src *v1beta1.PersistentPodState) (*v1alpha1.PersistentPodState, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	return throughJSON[v1alpha1.PersistentPodState](src, kindPersistentPodState, v1beta1.GroupVersion.String(), podStateToAlpha)
}

func podStateToBeta(object []byte) ([]byte, error) {
	return renameInPodState(object, v1beta1.GroupVersion.String())
}

func podStateToAlpha(object []byte) ([]byte, error) {
	return renameInPodState(object, v1alpha1.GroupVersion.String())
}

// The field with two names.
const alphaTopologyKeys, betaTopologyKeys = "nodeTopologyKeys", "keys"

// renameInPodState renames the lists of keys for the second version. If both names are in the same place, where the API
// server prunes, each becomes its counterpart, so nothing is lost. Values of a type outside the schema are carried over
// unchanged.
func renameInPodState(object []byte, apiVersion string) ([]byte, error) {
	whole, err := split(object)
	if err != nil {
		return nil, err
	}
	renameKeys(whole.spec, "requiredPersistentTopology")
	const preferred = "preferredPersistentTopology"
	var terms []json.RawMessage
	if json.Unmarshal(whole.spec[preferred], &terms) == nil {
		renamed := false
		for i := range terms {
			term := map[string]json.RawMessage{}
			if json.Unmarshal(terms[i], &term) == nil && renameKeys(term, "preference") {
				terms[i], renamed = encodedValue(term), true
			}
		}
		if renamed {
			whole.spec[preferred] = encodedValue(terms)
		}
	}
	return whole.in(apiVersion)
}

// renameKeys renames the keys in a field, and reports whether there were any.
func renameKeys(fields map[string]json.RawMessage, name string) bool {
	var term map[string]json.RawMessage
	if json.Unmarshal(fields[name], &term) != nil || !exchange(term, alphaTopologyKeys, betaTopologyKeys) {
		return false
	}
	fields[name] = encodedValue(term)
	return true
}

// podStateParts is empty: no part needs room in an annotation.
func podStateParts([]byte, string) (map[string]any, error) { return map[string]any{}, nil }
