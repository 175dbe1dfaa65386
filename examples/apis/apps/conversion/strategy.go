package conversion

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const (
	onDelete = string(v1beta1.OnDelete)
	reCreate = string(v1beta1.ReCreate)
)

func strategy() path { return path{specKey, "updateStrategy"} }

// rolls reports whether the strategy of a v1beta1 CloneSet updates Pods, which OnDelete does not.
func rolls(o object) bool { return text(o, append(strategy(), "type")) != onDelete }

// nested returns the move of the updateStrategy of a CloneSet: v1beta1 has the fields of v1alpha1 in a nested object.
func nested() move {
	change := func(convert func(object) object) func(object) {
		return func(o object) {
			in, _ := get(o, strategy()).(object)
			put(o, strategy(), convert(in))
		}
	}
	return move{to: [2]func(object){change(flatten), change(nest)}, places: [2][]path{{strategy()}, {strategy()}}}
}

func nest(flat object) object {
	policy, written := flat["type"]
	if policy == onDelete {
		return object{"type": onDelete}
	}
	delete(flat, "type")
	inPlacePolicies := []any{string(v1beta1.InPlaceIfPossible), string(v1beta1.InPlaceOnly)}
	if written {
		if !slices.Contains(append(inPlacePolicies, "", reCreate), policy) {
			policy = reCreate
		}
		flat["podUpdatePolicy"] = policy
	}
	if inPlace, has := flat[inPlaceKey].(object); has { // fields about images have no effect in a v1alpha1 spec
		maps.DeleteFunc(inPlace, func(key string, _ any) bool { return strings.HasPrefix(key, "imagePreDownload") })
	} else if slices.Contains(inPlacePolicies, policy) {
		flat[inPlaceKey] = object{}
	}
	return object{"type": string(v1beta1.RollingUpdate), "rollingUpdate": flat}
}

const inPlaceKey = "inPlaceUpdateStrategy"

func flatten(nested object) object {
	if nested["type"] == onDelete {
		return object{"type": onDelete}
	}
	flat, has := nested["rollingUpdate"].(object)
	if !has {
		return object{"type": reCreate}
	}
	if policy, written := flat["podUpdatePolicy"]; written {
		if policy == onDelete { // no policy of v1beta1; in v1alpha1 it would mean something else
			policy = reCreate
		}
		delete(flat, "podUpdatePolicy")
		flat["type"] = policy
	}
	meaningNone := []string{"null", "{}", `{"gracePeriodSeconds":0}`}
	if slices.Contains(meaningNone, string(encoded(flat[inPlaceKey]))) {
		delete(flat, inPlaceKey)
	}
	return flat
}

// namespaced returns the move of the namespace of a SidecarSet, which is a selector in v1beta1. The namespace replaces
// an existing selector.
func namespaced(name, selector string) move {
	m := move{places: [2][]path{{steps(name), steps(selector)}, {steps(selector)}}}
	m.to[beta] = func(o object) {
		if namespace := text(o, steps(name)); namespace != "" {
			put(o, steps(selector), object{"matchLabels": object{corev1.LabelMetadataName: namespace}})
		}
	}
	return m
}
