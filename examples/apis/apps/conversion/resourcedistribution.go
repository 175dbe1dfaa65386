package conversion

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const kindResourceDistribution = "ResourceDistribution"

// ResourceDistributionToV1beta1 converts. The result shares no memory with src.
func ResourceDistributionToV1beta1(src *v1alpha1.ResourceDistribution) (*v1beta1.ResourceDistribution, error) {
	return throughJSON[v1beta1.ResourceDistribution](src, kindResourceDistribution, v1alpha1.GroupVersion.String(), distributionToBeta)
}

// ResourceDistributionToV1alpha1 converts. The result shares no memory with src. An error means that src was not
// decoded in full.
func ResourceDistributionToV1alpha1(src *v1beta1.ResourceDistribution) (*v1alpha1.ResourceDistribution, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	return throughJSON[v1alpha1.ResourceDistribution](src, kindResourceDistribution, v1beta1.GroupVersion.String(), distributionToAlpha)
}

func distributionToBeta(object []byte) ([]byte, error) {
	return renameInDistribution(object, v1beta1.GroupVersion.String())
}

func distributionToAlpha(object []byte) ([]byte, error) {
	return renameInDistribution(object, v1alpha1.GroupVersion.String())
}

// The two fields whose names differ.
const (
	alphaSelector, betaSelector = "namespaceLabelSelector", "namespaceSelector"
	alphaFailed, betaFailed     = "failedNamespace", "failedNamespaces"
)

// renameInDistribution gives the two fields the names of the target version. An object with both names, impossible
// after pruning by the API server, gets the names exchanged, so that nothing is lost. Values of a wrong type are
// carried over unchanged.
func renameInDistribution(object []byte, apiVersion string) ([]byte, error) {
	whole, err := split(object)
	if err != nil {
		return nil, err
	}
	targets := map[string]json.RawMessage{}
	if json.Unmarshal(whole.spec["targets"], &targets) == nil && exchange(targets, alphaSelector, betaSelector) {
		whole.spec["targets"] = encodedValue(targets)
	}
	var status map[string]json.RawMessage
	var conditions []map[string]json.RawMessage
	if json.Unmarshal(whole.all[statusKey], &status) == nil && json.Unmarshal(status["conditions"], &conditions) == nil {
		renamed := false
		for _, condition := range conditions {
			renamed = exchange(condition, alphaFailed, betaFailed) || renamed
		}
		if renamed {
			status["conditions"] = encodedValue(conditions)
			whole.all[statusKey] = encodedValue(status)
		}
	}
	return whole.in(apiVersion)
}

// exchange exchanges the names of two fields, and reports whether either field existed.
func exchange(fields map[string]json.RawMessage, one, other string) bool {
	a, hasOne := fields[one]
	b, hasOther := fields[other]
	delete(fields, one)
	delete(fields, other)
	if hasOne {
		fields[other] = a
	}
	if hasOther {
		fields[one] = b
	}
	return hasOne || hasOther
}

// distributionParts is empty: no field needs room in an annotation.
func distributionParts([]byte, string) (map[string]any, error) { return map[string]any{}, nil }
