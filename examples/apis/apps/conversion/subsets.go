package conversion

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// templateSpec returns the path of a field of the CloneSet template in a UnitedDeployment.
func templateSpec(name string) path { return steps("spec.template.cloneSetTemplate.spec." + name) }

// templateStrategy returns the move of the updateStrategy of the CloneSet template in a UnitedDeployment. In v1alpha1
// the fields are directly in updateStrategy, as in OpenKruise 1.9.0; in v1beta1 they are in rollingUpdate.
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

// settleStrategy rewrites an updateStrategy of a v1alpha1 object that contains rollingUpdate to the form without
// rollingUpdate. Later versions of OpenKruise write the form with rollingUpdate. The value of type shows which form an
// object has.
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

// templateReuse returns the conversion of the field that decides whether claims are reused: the value in v1beta1 is the
// negated value of v1alpha1. A missing field stays missing, as in OpenKruise.
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

// subsetStatuses returns the move of the numbers of subsets in the status of a UnitedDeployment. v1alpha1 has these
// numbers also in maps by subset name, and has the newest revision in the object that contains the partitions.
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

// foldSubsets converts the maps of v1alpha1 to the list of v1beta1: subsets that are only in the maps are added to the
// list.
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
