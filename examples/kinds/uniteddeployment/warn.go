package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// mostWithoutEffect is the largest number of fields of a patch that a warning names.
const mostWithoutEffect = 5

// warn returns warnings about a valid object.
func warn(ud *v1beta1.UnitedDeployment) (warnings []string) {
	if len(ud.Spec.Topology.Subsets) == 0 && replicasOf(ud) > 0 {
		warnings = append(warnings, topologyPath+" is empty: no Pods are created, and the workloads of former subsets are deleted with all their Pods")
	}
	for i := range ud.Spec.Topology.Subsets {
		subset := &ud.Spec.Topology.Subsets[i]
		if fields := withoutEffect([]byte(patchOf(subset))); len(fields) > 0 {
			fields = fields[:min(len(fields), mostWithoutEffect)]
			warnings = append(warnings, subsetPath(subset.Name).Child("patch").String()+": fields without effect on the Pods of the subset: "+strings.Join(fields, ", "))
		}
	}
	return warnings
}

// warnUpdate returns warnings about an update. An example is a change of the template's kind, after which
// OpenKruise's controller and this controller delete all old workloads at once.
func warnUpdate(ud, stored *v1beta1.UnitedDeployment) []string {
	next, before := templatesOf(&ud.Spec.Template), templatesOf(&stored.Spec.Template)
	if len(next) != 1 || len(before) != 1 || next[0].name == before[0].name || replicasOf(stored) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("spec.template: with %s in place of %s, all old workloads are deleted with their Pods before new Pods are ready", next[0].name, before[0].name)}
}

// withoutEffect returns the fields of a patch that have no effect on Pods: unknown fields, and fields of a Pod
// template that are not copied to Pods.
func withoutEffect(patch []byte) []string {
	var parts struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if len(patch) == 0 || json.Unmarshal(patch, &parts) != nil {
		return nil
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(parts.Metadata)) {
		if !slices.Contains([]string{"labels", "annotations", "finalizers"}, name) {
			fields = append(fields, "metadata."+name)
		}
	}
	for _, path := range admission.UnknownFields(patch, "", &corev1.PodTemplateSpec{}) {
		if path = strings.TrimPrefix(path, "."); !strings.HasPrefix(path, "metadata.") {
			fields = append(fields, path)
		}
	}
	return slices.DeleteFunc(fields, func(path string) bool { return strings.Contains(path, "$") }) // directives
}
