package sidecarset

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// AnnotationRules limit the annotations added to Pods by SidecarSets. AnnotationRules are immutable. Make
// AnnotationRules with ParseAnnotationRules.
type AnnotationRules struct {
	rules   []annotationRule
	lenient bool
}

type annotationRule struct {
	selector labels.Selector
	keys     []*regexp.Regexp
}

// ParseAnnotationRules reads the rules of the ConfigMap [apps.ConfigurationName]; an empty text has none. With lenient,
// SidecarSets without a rule may add all annotations, as wanted by the gate
// [apps.GateSidecarSetPatchPodMetadataDefaults]; otherwise none.
func ParseAnnotationRules(text string, lenient bool) (*AnnotationRules, error) {
	out := &AnnotationRules{lenient: lenient}
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
func (r *AnnotationRules) validate(obj *v1beta1.SidecarSet, path *field.Path, at indexing) field.ErrorList {
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
				errs = append(errs, field.Forbidden(at(path, i, anyPatch).Child("annotations").Key(key),
					"is not allowed by "+apps.ConfigurationAnnotationRules+" of ConfigMap "+apps.ConfigurationName))
			}
		}
	}
	return errs
}

// anyPatch names no patch: a key is in a single patch, and stays the same when the patch gets more keys.
const anyPatch = ""

// patchName tells patches apart.
func patchName(patch *pub.SidecarSetPatchPodMetadata) string {
	return strings.Join(slices.Sorted(maps.Keys(patch.Annotations)), ",")
}

func validatePatches(patches []pub.SidecarSetPatchPodMetadata, path *field.Path, at indexing) field.ErrorList {
	var errs field.ErrorList
	policies := []pub.SidecarSetPatchPolicy{pub.SidecarSetRetain, pub.SidecarSetOverwrite, pub.SidecarSetMergePatchJSON}
	seen, size := map[string]bool{}, 0
	for i := range patches {
		patch := &patches[i]
		where := at(path, i, patchName(patch))
		if !slices.Contains(policies, patch.PatchPolicy) {
			errs = append(errs, field.NotSupported(where.Child("patchPolicy"), patch.PatchPolicy, policies))
		}
		if len(patch.Annotations) == 0 {
			errs = append(errs, field.Required(where.Child("annotations"), "add at least one annotation"))
		}
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			for _, msg := range utilvalidation.IsQualifiedName(strings.ToLower(key)) {
				errs = append(errs, field.Invalid(where.Child("annotations"), key, msg))
			}
			if seen[key] {
				errs = append(errs, field.Duplicate(where.Child("annotations").Key(key), key))
			}
			seen[key] = true
			size += len(key) + len(patch.Annotations[key])
		}
	}
	if size > roomForPatches {
		errs = append(errs, field.TooLong(path, field.OmitValueType{}, roomForPatches))
	}
	return errs
}

// roomForPatches is the maximum size of all annotations of a set, in bytes: half of the API server's limit for a Pod,
// because Pods have annotations of their own.
const roomForPatches = apivalidation.TotalAnnotationSizeLimitB / 2
