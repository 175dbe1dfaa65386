package uniteddeployment

import (
	"bytes"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// encode returns the data of a revision with the same bytes as OpenKruise: keys are sorted, and creation times are
// null.
func encode(t *v1beta1.SubsetTemplate) ([]byte, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encoding a revision: %w", err)
	}
	content := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&content); err != nil {
		return nil, fmt.Errorf("encoding a revision: %w", err)
	}
	addTimes(content)
	content["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": content}})
}

func addTimes(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if meta, ok := inner.(map[string]any); ok && key == "metadata" && meta["creationTimestamp"] == nil {
				meta["creationTimestamp"] = nil
			}
			addTimes(inner)
		}
	case []any:
		for _, inner := range value {
			addTimes(inner)
		}
	}
}

// isIn reports whether a revision records a template. data is the result of encode for the template. OpenKruise up to
// 1.9.0 records templates of CloneSets in the form of v1alpha1, and later versions in the form of v1beta1.
func isIn(rev *appsv1.ControllerRevision, t *v1beta1.SubsetTemplate, data []byte) bool {
	content, isObject := bytes.CutPrefix(bytes.TrimSpace(rev.Data.Raw), []byte("{"))
	holds := func(version string) bool {
		raw := append([]byte(`{"apiVersion":"`+apps.Group+"/"+version+`","kind":"UnitedDeployment",`), content...)
		raw, err := conversion.JSON(raw, v1beta1.GroupVersion.String())
		var was v1beta1.UnitedDeployment
		return err == nil && decode.Object(raw, &was) == nil && len(was.Spec.Undecodable) == 0 && apiequality.Semantic.DeepEqual(&was.Spec.Template, t)
	}
	return bytes.Equal(rev.Data.Raw, data) || isObject && (holds("v1beta1") || holds("v1alpha1"))
}
