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

// annotationRules limit the annotations added to Pods by SidecarSets. annotationRules are immutable. Make
// annotationRules with parseAnnotationRules.
type annotationRules struct {
	rules   []annotationRule
	lenient bool
}

type annotationRule struct {
	selector labels.Selector
	keys     []*regexp.Regexp
}

// parseAnnotationRules reads the rules of the ConfigMap [apps.ConfigurationName]; an empty text has none. With lenient,
// SidecarSets without a rule may add all annotations, as wanted by the gate
// [apps.GateSidecarSetPatchPodMetadataDefaults]; otherwise none.
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

// validate refuses annotations not allowed by the rules. Nil rules allow all.
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

// anyPatch names no patch: a key is in a single patch, and stays the same when the patch gets more keys.
const anyPatch = ""
