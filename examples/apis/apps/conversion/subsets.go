package conversion

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// templateSpec is the place of a field of CloneSets in a UnitedDeployment.
func templateSpec(name string) path { return steps("spec.template.cloneSetTemplate.spec." + name) }

// templateStrategy is the updateStrategy of CloneSets in a UnitedDeployment: flat in v1alpha1, as in OpenKruise 1.9.0.
func templateStrategy() move {
	p := templateSpec("updateStrategy")
	change := func(convert func(object) object) func(object) {
		return func(o object) {
			if in, _ := get(o, p).(object); len(in) > 0 {
				put(o, p, convert(in))
			}
		}
	}
	return move{to: [2]func(object){change(flatten), change(nest)}, places: [2][]path{{p}, {p}}}
}

// settleStrategy makes the strategy of a v1alpha1 template flat. Later versions of OpenKruise write the nested form of
// v1beta1 within v1alpha1, as the type tells.
func settleStrategy(o object) {
	p := templateSpec("updateStrategy")
	in, _ := get(o, p).(object)
	policies := []any{reCreate, string(v1beta1.InPlaceIfPossible), string(v1beta1.InPlaceOnly)}
	if _, nested := in["rollingUpdate"]; nested && !slices.Contains(policies, in["type"]) {
		put(o, p, flatten(in))
		return
	}
	delete(in, "rollingUpdate")
}

// templateReuse is the reuse of claims, as written: OpenKruise changes the meaning of no value between the versions.
func templateReuse() move {
	negate := func(from, to path) func(object) {
		return func(o object) {
			if value, written := get(o, from).(bool); written {
				drop(o, from)
				put(o, to, !value)
			}
		}
	}
	disable, enable := templateSpec("scaleStrategy.disablePVCReuse"), templateSpec("scaleStrategy.enablePVCReuse")
	return move{to: [2]func(object){negate(enable, disable), negate(disable, enable)}}
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
