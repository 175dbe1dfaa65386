package conversion

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// formerCloneSetTemplate is the template of CloneSets in a UnitedDeployment. OpenKruise 1.9.0 writes the template in the
// form of v1alpha1, later versions in the form of v1beta1, and both within v1alpha1. Conversion reads both, and writes
// v1beta1. A value of the former form is the newer one: only a writer of v1alpha1 adds the value.
func formerCloneSetTemplate() move {
	template := steps("spec.template.cloneSetTemplate.spec")
	below := func(names ...string) path { return slices.Concat(template, names) }
	return move{to: [2]func(object){beta: func(o object) {
		if strategy, _ := get(o, below("updateStrategy")).(object); isFlat(strategy) {
			put(o, below("updateStrategy"), nest(unfolded(strategy)))
		}
		if disabled, written := get(o, below("scaleStrategy", "disablePVCReuse")).(bool); written {
			drop(o, below("scaleStrategy", "disablePVCReuse"))
			put(o, below("scaleStrategy", "enablePVCReuse"), !disabled)
		}
	}}}
}

// isFlat reports whether a strategy has a value in the form of v1alpha1.
func isFlat(strategy object) bool {
	policies := []any{reCreate, string(v1beta1.InPlaceIfPossible), string(v1beta1.InPlaceOnly)}
	for key := range strategy {
		if key != "type" && key != "rollingUpdate" {
			return strategy["type"] != onDelete
		}
	}
	return slices.Contains(policies, strategy["type"])
}

// unfolded moves the values of v1beta1 to the values of v1alpha1, which count.
func unfolded(strategy object) object {
	rolling, _ := strategy["rollingUpdate"].(object)
	flat := maps.Clone(rolling)
	if flat == nil {
		flat = object{}
	}
	maps.Copy(flat, strategy)
	delete(flat, "rollingUpdate")
	if flat["type"] == string(v1beta1.RollingUpdate) {
		delete(flat, "type") // no policy
	}
	return flat
}

// subsetStatuses are the numbers of subsets in the status of a UnitedDeployment. v1alpha1 shows the numbers once more,
// by name, and the newest revision beside the partitions.
func subsetStatuses() move {
	return move{to: [2]func(object){alpha: showSubsets, beta: foldSubsets}}
}

func showSubsets(o object) {
	revision := get(o, steps("status.updatedRevision"))
	replicas, partitions := object{}, object{}
	list, _ := get(o, steps("status.subsetStatuses")).([]any)
	for _, element := range list {
		subset, _ := element.(object)
		for into, key := range map[*object]string{&replicas: "replicas", &partitions: "partition"} {
			if (*into)[nameOf(subset)] = subset[key]; subset[key] == nil {
				(*into)[nameOf(subset)] = json.Number("0")
			}
		}
	}
	update := object{}
	if revision != nil {
		drop(o, steps("status.updatedRevision"))
		update["updatedRevision"] = revision
	}
	if len(list) > 0 {
		put(o, steps("status.subsetReplicas"), replicas)
		update["currentPartitions"] = partitions
	}
	if len(update) > 0 {
		put(o, steps("status.updateStatus"), update)
	}
}

// foldSubsets adds subsets known by name alone.
func foldSubsets(o object) {
	update, _ := get(o, steps("status.updateStatus")).(object)
	replicas, _ := get(o, steps("status.subsetReplicas")).(object)
	partitions, _ := update["currentPartitions"].(object)
	drop(o, steps("status.updateStatus"))
	drop(o, steps("status.subsetReplicas"))
	if revision := update["updatedRevision"]; revision != nil {
		put(o, steps("status.updatedRevision"), revision)
	}
	names := maps.Clone(replicas)
	if names == nil {
		names = object{}
	}
	maps.Copy(names, partitions)
	list, _ := get(o, steps("status.subsetStatuses")).([]any)
	for _, element := range list {
		subset, _ := element.(object)
		delete(names, nameOf(subset))
	}
	if len(names) == 0 {
		return
	}
	list = slices.Clone(list)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		subset := object{"name": name}
		for key, value := range map[string]any{"replicas": replicas[name], "partition": partitions[name]} {
			if value != nil {
				subset[key] = value
			}
		}
		list = append(list, subset)
	}
	put(o, steps("status.subsetStatuses"), list)
}

func nameOf(subset object) string {
	name, _ := subset["name"].(string)
	return name
}
