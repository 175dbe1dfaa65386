package hostile

import (
	"fmt"
	"maps"
	"strings"
)

// StatefulSets returns StatefulSets for an attack; each call returns the same objects. Some of the StatefulSets make
// the processing of ordinals or priorities expensive. The remaining StatefulSets exceed limits that admission checks
// for all workloads.
func StatefulSets() []Object {
	out := []Object{
		{"200,000 reserved ordinals", reserving(200_000, func(i int) any { return i }), false},
		{"60,000 reserved ranges", reserving(60_000, func(i int) any { return fmt.Sprintf("%d-%d", 3*i, 3*i+1) }), false},
		{"60,000 reserved ordinals that are none", reserving(60_000, func(int) any { return "x" }), false},
		{"a reserved number of a million digits", reserving(1, func(int) any { return fmt.Sprintf("0-%01000000d", 1) }), false},
		{"ranges that reserve each other", reserving(9_000, func(i int) any { return fmt.Sprintf("%d-2000000000", i) }), true},
		{"30,000 terms of a priority", statefulSet(tree{"podManagementPolicy": "Parallel", "updateStrategy": tree{
			"type": "RollingUpdate", "rollingUpdate": tree{"unorderedUpdate": tree{"priorityStrategy": tree{
				"orderPriority": repeated(30_000, func(i int) any { return tree{"orderedKey": fmt.Sprintf("k%d", i)} }),
			}}},
		}}), false},
		{"annotations that leave the old version no room", statefulSet(tree{"reserveOrdinals": repeated(9_000, func(i int) any {
			return fmt.Sprintf("%012d-%012d", 3*i, 3*i+1)
		})}, tree{"a": strings.Repeat("x", 200_000)}), false},
	}
	for _, object := range []Object{
		{"a selector of 90,000 values", selecting(90_000), false},
		{"20,000 claim templates", claimed(20_000), false},
	} {
		object.Content["kind"] = "StatefulSet"
		out = append(out, object)
	}
	return out
}

// statefulSet returns a small StatefulSet without replicas, with additions to its spec.
func statefulSet(spec tree, annotations ...tree) tree {
	out := base()
	out["kind"] = "StatefulSet"
	maps.Copy(out["spec"].(tree), spec)
	for _, a := range annotations {
		out["metadata"].(tree)["annotations"] = a
	}
	return out
}

func reserving(n int, entry func(i int) any) tree {
	return statefulSet(tree{"reserveOrdinals": repeated(n, entry)})
}
