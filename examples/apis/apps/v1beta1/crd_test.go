package v1beta1_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// schema has the parts of an OpenAPI schema that the CRDs use.
type schema struct {
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Default     any               `json:"default"`
	Required    []string          `json:"required"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Additional  *schema           `json:"additionalProperties"`
	IntOrString bool              `json:"x-kubernetes-int-or-string"`
	KeepUnknown bool              `json:"x-kubernetes-preserve-unknown-fields"`
}

type column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	JSONPath string `json:"jsonPath"`
	Priority int    `json:"priority"`
}

type crd struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Conversion struct {
			Strategy string `json:"strategy"`
		} `json:"conversion"`
		Versions []struct {
			Name         string         `json:"name"`
			Served       bool           `json:"served"`
			Storage      bool           `json:"storage"`
			Columns      []column       `json:"additionalPrinterColumns"`
			Subresources map[string]any `json:"subresources"`
			Schema       struct {
				Root schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// describe returns a short text for the type of a field.
func (s schema) describe() string {
	kind := s.Type
	switch {
	case s.IntOrString:
		kind = "int-or-string"
	case s.KeepUnknown:
		kind = "anything"
	case s.Format != "":
		kind = s.Format
	}
	if s.Default != nil {
		kind += " with default"
	}
	return kind
}

// flatten adds all fields below a path to a map from path to type, with "*" after the names of required fields.
func (s schema) flatten(path string, into map[string]string) {
	into[path] = s.describe()
	for name, property := range s.Properties {
		if slices.Contains(s.Required, name) {
			name += "*"
		}
		property.flatten(strings.TrimPrefix(path+"."+name, "."), into)
	}
	if s.Items != nil {
		s.Items.flatten(path+"[]", into)
	}
	if s.Additional != nil {
		s.Additional.flatten(path+"{}", into)
	}
}

func readCRD(t *testing.T, resource string) (crd, int) {
	t.Helper()
	raw, err := os.ReadFile("../../../config/crd/apps.kruise.io_" + resource + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c crd
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c, len(raw)
}

// fieldsOf expands each line such as "int32 a b c" to the fields a, b and c of type int32, with the prefix before the
// paths.
func fieldsOf(prefix, lines string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		for _, name := range words[min(1, len(words)):] {
			fields[prefix+name] = strings.ReplaceAll(words[0], "_", " ")
		}
	}
	return fields
}

func selectorFields(prefix string) map[string]string {
	return fieldsOf(prefix, `object .matchLabels .matchExpressions[]
		array .matchExpressions .matchExpressions[].values
		string .matchLabels{} .matchExpressions[].key* .matchExpressions[].operator* .matchExpressions[].values[]`)
}

func updateFields(prefix string) map[string]string {
	fields := fieldsOf(prefix, `int-or-string .partition .maxUnavailable .maxSurge
		boolean .paused
		object .priorityStrategy .scatterStrategy[] .inPlaceUpdateStrategy
		array .scatterStrategy
		string .scatterStrategy[].key* .scatterStrategy[].value*
		int-or-string .inPlaceUpdateStrategy.imagePreDownloadParallelism
		int32 .inPlaceUpdateStrategy.gracePeriodSeconds .inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds
		int32 .inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods`)
	maps.Copy(fields, priorityFields(prefix+".priorityStrategy"))
	return fields
}

func priorityFields(prefix string) map[string]string {
	fields := fieldsOf(prefix, `array .orderPriority .weightPriority
		object .orderPriority[] .weightPriority[] .weightPriority[].matchSelector*
		string .orderPriority[].orderedKey*
		int32 .weightPriority[].weight*`)
	maps.Copy(fields, selectorFields(prefix+".weightPriority[].matchSelector*"))
	return fields
}

func lifecycleFields() map[string]string {
	fields := map[string]string{"spec.lifecycle": "object"}
	for _, hook := range []string{"preDelete", "inPlaceUpdate", "preNormal"} {
		maps.Copy(fields, fieldsOf("spec.lifecycle."+hook, `object .labelsHandler
			string .labelsHandler{} .finalizersHandler[]
			array .finalizersHandler
			boolean .markPodNotReady`))
		fields["spec.lifecycle."+hook] = "object"
	}
	return fields
}

// cloneSetFields returns the fields that both versions of a CloneSet have.
func cloneSetFields() map[string]string {
	fields := fieldsOf("", `object metadata spec status
		string apiVersion kind
		object spec.selector* spec.scaleStrategy spec.updateStrategy
		anything spec.template* spec.volumeClaimTemplates
		int32 spec.replicas spec.minReadySeconds spec.revisionHistoryLimit spec.progressDeadlineSeconds
		array spec.scaleStrategy.podsToDelete
		string spec.scaleStrategy.podsToDelete[] spec.updateStrategy.type
		int-or-string spec.scaleStrategy.maxUnavailable`)
	maps.Copy(fields, selectorFields("spec.selector*"))
	maps.Copy(fields, lifecycleFields())
	maps.Copy(fields, fieldsOf("status.", `int64 observedGeneration
		int32 replicas* readyReplicas* availableReplicas* updatedReplicas* updatedReadyReplicas*
		int32 updatedAvailableReplicas expectedUpdatedReplicas collisionCount
		string updateRevision currentRevision labelSelector
		array conditions
		object conditions[]
		string conditions[].type* conditions[].status* conditions[].reason conditions[].message
		date-time conditions[].lastUpdateTime conditions[].lastTransitionTime`))
	fields[""] = "object"
	return fields
}

// statefulSetFields returns the fields that both versions of a StatefulSet have.
func statefulSetFields() map[string]string {
	fields := fieldsOf("", `object metadata spec status
		string apiVersion kind
		object spec.selector* spec.updateStrategy spec.updateStrategy.rollingUpdate
		anything spec.template* spec.volumeClaimTemplates
		int32 spec.replicas spec.revisionHistoryLimit
		string spec.serviceName spec.podManagementPolicy spec.updateStrategy.type`)
	maps.Copy(fields, selectorFields("spec.selector*"))
	const rolling = "spec.updateStrategy.rollingUpdate"
	maps.Copy(fields, fieldsOf(rolling, `int32 .partition .minReadySeconds
		int-or-string .maxUnavailable
		string .podUpdatePolicy
		boolean .paused
		object .unorderedUpdate .unorderedUpdate.priorityStrategy .inPlaceUpdateStrategy
		int-or-string .inPlaceUpdateStrategy.imagePreDownloadParallelism
		int32 .inPlaceUpdateStrategy.gracePeriodSeconds .inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds
		int32 .inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods`))
	maps.Copy(fields, priorityFields(rolling+".unorderedUpdate.priorityStrategy"))
	maps.Copy(fields, fieldsOf("status.", `int64 observedGeneration
		int32 replicas* readyReplicas* availableReplicas* currentReplicas* updatedReplicas*
		int32 updatedReadyReplicas updatedAvailableReplicas collisionCount
		string updateRevision currentRevision labelSelector
		array conditions volumeClaims
		object conditions[] volumeClaims[]
		string conditions[].type* conditions[].status* conditions[].reason conditions[].message
		date-time conditions[].lastUpdateTime conditions[].lastTransitionTime
		string volumeClaims[].volumeClaimName*
		int32 volumeClaims[].compatibleReplicas* volumeClaims[].compatibleReadyReplicas*`))
	fields[""] = "object"
	return fields
}

func TestCRDFields(t *testing.T) {
	beta, alpha := cloneSetFields(), cloneSetFields()
	maps.Copy(beta, updateFields("spec.updateStrategy.rollingUpdate"))
	maps.Copy(beta, fieldsOf("spec.", `object updateStrategy.rollingUpdate
		string updateStrategy.rollingUpdate.podUpdatePolicy
		boolean_with_default scaleStrategy.enablePVCReuse
		boolean scaleStrategy.excludePreparingDelete`))
	maps.Copy(alpha, updateFields("spec.updateStrategy"))
	maps.Copy(alpha, fieldsOf("spec.", `boolean scaleStrategy.disablePVCReuse`))
	checkFields(t, "clonesets", alpha, beta)
}

// TestStatefulSetCRDFields: both versions have OpenKruise's fields, and v1alpha1 also has the status fields that
// OpenKruise shows only in v1beta1.
func TestStatefulSetCRDFields(t *testing.T) {
	beta := statefulSetFields()
	maps.Copy(beta, lifecycleFields())
	maps.Copy(beta, fieldsOf("spec.", `object volumeClaimUpdateStrategy scaleStrategy persistentVolumeClaimRetentionPolicy ordinals
		string volumeClaimUpdateStrategy.type persistentVolumeClaimRetentionPolicy.whenDeleted persistentVolumeClaimRetentionPolicy.whenScaled
		array reserveOrdinals
		int-or-string reserveOrdinals[] scaleStrategy.maxUnavailable
		int32 ordinals.start`))
	checkFields(t, "statefulsets", statefulSetFields(), beta)
}

func checkFields(t *testing.T, resource string, alpha, beta map[string]string) {
	t.Helper()
	c, _ := readCRD(t, resource)
	got := map[string]map[string]string{}
	for _, version := range c.Spec.Versions {
		fields := map[string]string{}
		version.Schema.Root.flatten("", fields)
		got[version.Name] = fields
	}
	if diff := cmp.Diff(map[string]map[string]string{"v1alpha1": alpha, "v1beta1": beta}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCRDNamesAndColumns(t *testing.T) {
	const ofContainers = ".spec.template.spec.containers[*]"
	for _, tc := range []struct {
		resource, kind, shortNames string
		columns                    []column
	}{
		{"clonesets", "CloneSet", "clone", []column{
			{"DESIRED", "integer", ".spec.replicas", 0},
			{"UPDATED", "integer", ".status.updatedReplicas", 0},
			{"UPDATED_READY", "integer", ".status.updatedReadyReplicas", 0},
			{"UPDATED_AVAILABLE", "integer", ".status.updatedAvailableReplicas", 0},
			{"READY", "integer", ".status.readyReplicas", 0},
			{"TOTAL", "integer", ".status.replicas", 0},
			{"AGE", "date", ".metadata.creationTimestamp", 0},
			{"CONTAINERS", "string", ofContainers + ".name", 1},
			{"IMAGES", "string", ofContainers + ".image", 1},
			{"SELECTOR", "string", ".status.labelSelector", 1},
		}},
		{"statefulsets", "StatefulSet", "sts,asts", []column{
			{"DESIRED", "integer", ".spec.replicas", 0},
			{"CURRENT", "integer", ".status.replicas", 0},
			{"UPDATED", "integer", ".status.updatedReplicas", 0},
			{"READY", "integer", ".status.readyReplicas", 0},
			{"AGE", "date", ".metadata.creationTimestamp", 0},
			{"CONTAINERS", "string", ofContainers + ".name", 1},
			{"IMAGES", "string", ofContainers + ".image", 1},
		}},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			c, size := readCRD(t, tc.resource)
			names := c.Spec.Names
			got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
			if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", tc.kind, tc.resource, tc.shortNames}, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			checkVersions(t, c, tc.columns)
			if limit := 200 << 10; size > limit {
				t.Errorf("the CRD has %d bytes; above %d client-side apply is in danger", size, limit)
			}
		})
	}
}

func checkVersions(t *testing.T, c crd, columns []column) {
	t.Helper()
	subresources := map[string]any{"status": map[string]any{}, "scale": map[string]any{
		"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
		"labelSelectorPath": ".status.labelSelector",
	}}
	for _, version := range c.Spec.Versions {
		if diff := cmp.Diff(columns, version.Columns); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", version.Name, diff)
		}
		if diff := cmp.Diff(subresources, version.Subresources); diff != "" {
			t.Errorf("%s: subresources (-want +got):\n%s", version.Name, diff)
		}
		if stored := version.Name == "v1beta1"; version.Storage != stored || !version.Served {
			t.Errorf("%s: storage %t, served %t", version.Name, version.Storage, version.Served)
		}
	}
	if len(c.Spec.Versions) != 2 || c.Spec.Conversion.Strategy != "Webhook" {
		t.Errorf("%d versions are served, and conversion is %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
}
