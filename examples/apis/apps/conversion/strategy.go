package conversion

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func strategy() path { return path{specKey, "updateStrategy"} }

const (
	typeKey    = "type"
	policyKey  = "podUpdatePolicy"
	rollingKey = "rollingUpdate"
	inPlaceKey = "inPlaceUpdateStrategy"
	onDelete   = string(v1beta1.OnDelete)
	reCreate   = string(v1beta1.ReCreate)
)

// rolls reports whether a v1beta1 CloneSet is updated at all.
func rolls(o object) bool { return text(o, append(strategy(), typeKey)) != onDelete }

// nested is the updateStrategy of a CloneSet: flat in v1alpha1, and in v1beta1 within a second object.
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
	policy, written := flat[typeKey]
	if policy == onDelete {
		return object{typeKey: onDelete}
	}
	delete(flat, typeKey)
	inPlacePolicies := []any{string(v1beta1.InPlaceIfPossible), string(v1beta1.InPlaceOnly)}
	if written && !slices.Contains(append(inPlacePolicies, "", reCreate), policy) {
		policy = reCreate
	}
	if written {
		flat[policyKey] = policy
	}
	if inPlace, has := flat[inPlaceKey].(object); has { // image keys in a v1alpha1 spec have no effect
		maps.DeleteFunc(inPlace, func(key string, _ any) bool { return strings.HasPrefix(key, "imagePreDownload") })
	} else if slices.Contains(inPlacePolicies, policy) {
		flat[inPlaceKey] = object{}
	}
	return object{typeKey: string(v1beta1.RollingUpdate), rollingKey: flat}
}

func flatten(strategy object) object {
	rolling, has := strategy[rollingKey].(object)
	switch {
	case strategy[typeKey] == onDelete:
		return object{typeKey: onDelete}
	case !has:
		return object{typeKey: reCreate}
	}
	if policy, written := rolling[policyKey]; written {
		if policy == onDelete { // no policy of v1beta1, and as a type of v1alpha1 the value would have a second meaning
			policy = reCreate
		}
		delete(rolling, policyKey)
		rolling[typeKey] = policy
	}
	if inPlace, has := rolling[inPlaceKey].(object); has && meansNone(inPlace) {
		delete(rolling, inPlaceKey)
	}
	return rolling
}

// meansNone reports whether an inPlaceUpdateStrategy means the same as none.
func meansNone(inPlace object) bool {
	for key, value := range inPlace {
		if !isEmpty(value) && (key != "gracePeriodSeconds" || value != json.Number("0")) {
			return false
		}
	}
	return true
}

// namespaced is the namespace of a SidecarSet, a selector in v1beta1. The namespace replaces an existing selector.
func namespaced(name, selector string) move {
	from, to := steps(name), steps(selector)
	return move{
		to: [2]func(object){
			alpha: func(o object) { drop(o, from) },
			beta: func(o object) {
				if namespace := text(o, from); namespace != "" {
					put(o, to, object{"matchLabels": object{corev1.LabelMetadataName: namespace}})
				}
				drop(o, from)
			},
		},
		places: [2][]path{{from, to}, {to}},
	}
}
