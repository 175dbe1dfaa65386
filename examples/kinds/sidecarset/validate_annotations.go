package sidecarset

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// annotationRules say which annotations SidecarSets may add to Pods. annotationRules are immutable.
// parseAnnotationRules makes annotationRules.
type annotationRules struct {
	rules   []annotationRule
	lenient bool
}

type annotationRule struct {
	selector labels.Selector
	keys     []*regexp.Regexp
}

// parseAnnotationRules parses the rules in the ConfigMap [apps.ConfigurationName]; an empty text contains no rules. If
// lenient is true, SidecarSets for which no rule exists may add any annotation; otherwise such SidecarSets may add
// none. The gate [apps.GateSidecarSetPatchPodMetadataDefaults] sets lenient.
func parseAnnotationRules(text string, lenient bool) (*annotationRules, error) {
	out := &annotationRules{lenient: lenient}
	if strings.TrimSpace(text) == "" {
		return out, nil
	}
	var read struct {
		Rules []struct {
			Selector *metav1.LabelSelector `json:"selector"`
			Keys     []string              `json:"allowedAnnotationKeyExprs"`
		} `json:"rules"`
	}
	if err := utiljson.Unmarshal([]byte(text), &read); err != nil {
		return nil, fmt.Errorf("%s: %w", apps.ConfigurationAnnotationRules, err)
	}
	for i, r := range read.Rules {
		rule, at := annotationRule{selector: labels.Everything()}, fmt.Sprintf("%s: rules[%d]", apps.ConfigurationAnnotationRules, i)
		var err error
		if r.Selector != nil {
			if rule.selector, err = metav1.LabelSelectorAsSelector(r.Selector); err != nil {
				return nil, fmt.Errorf("%s.selector: %w", at, err)
			}
		}
		for j, text := range r.Keys {
			key, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("%s.allowedAnnotationKeyExprs[%d]: %w", at, j, err)
			}
			rule.keys = append(rule.keys, key)
		}
		out.rules = append(out.rules, rule)
	}
	return out, nil
}

// validate returns errors for annotations that the rules do not allow. Nil rules allow all annotations.
func (r *annotationRules) validate(obj *v1beta1.SidecarSet, at indexing) field.ErrorList {
	if r == nil {
		return nil
	}
	var allowed []*regexp.Regexp
	for _, rule := range r.rules {
		if rule.selector.Matches(labels.Set(obj.Labels)) {
			allowed = append(allowed, rule.keys...)
		}
	}
	if len(allowed) == 0 && r.lenient {
		return nil
	}
	var errs field.ErrorList
	for i := range obj.Spec.PatchPodMetadata {
		patch := &obj.Spec.PatchPodMetadata[i]
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			if !slices.ContainsFunc(allowed, func(expr *regexp.Regexp) bool { return expr.MatchString(key) }) {
				errs = append(errs, field.Forbidden(at(field.NewPath("spec", "patchPodMetadata"), i, anyPatch).Child("annotations").Key(key),
					"is not allowed by "+apps.ConfigurationAnnotationRules+" of ConfigMap "+apps.ConfigurationName))
			}
		}
	}
	return errs
}

// anyPatch replaces the name of the patch in the path of an annotation key, so that an error about the key stays the
// same if users add further keys to the patch.
const anyPatch = ""
