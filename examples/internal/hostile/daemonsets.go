package hostile

import (
	"fmt"
	"maps"
	"strings"
)

// DaemonSets returns DaemonSets for an attack; each call returns the same objects. Some of the DaemonSets make the
// choice of Nodes expensive. The remaining DaemonSets exceed limits that admission checks for all workloads. The
// DaemonSets fit no Node, so no Pods are created.
func DaemonSets() []Object {
	required := func(terms []any) tree {
		return daemonSet(nil, tree{"affinity": tree{"nodeAffinity": tree{"requiredDuringSchedulingIgnoredDuringExecution": tree{"nodeSelectorTerms": terms}}}})
	}
	return []Object{
		{"90,000 values of a label of Nodes", required([]any{tree{"matchExpressions": []any{
			tree{"key": "zone", "operator": "In", "values": repeated(90_000, func(i int) any { return fmt.Sprintf("v%d", i) })},
		}}}), false},
		{"20,000 terms for Nodes", required(repeated(20_000, func(i int) any {
			return tree{"matchExpressions": []any{tree{"key": "zone", "operator": "In", "values": []any{fmt.Sprintf("v%d", i)}}}}
		})), false},
		Edited(),
		{"20,000 tolerations", daemonSet(nil, tree{"tolerations": repeated(20_000, func(i int) any {
			return tree{"key": fmt.Sprintf("k%d", i), "operator": "Exists"}
		})}), false},
		{"a selector of Nodes of 90,000 values", daemonSet(tree{"updateStrategy": tree{"type": "RollingUpdate", "rollingUpdate": tree{
			"maxUnavailable": 1, "selector": tree{"matchExpressions": []any{notIn(90_000)}},
		}}}, nil), false},
	}
}

// Edited returns a DaemonSet with the longest list of Node selector terms that a user can store by many small edits.
func Edited() Object {
	terms := repeated(480, func(i int) any {
		prefix := strings.Repeat(strings.Repeat("a", 62)+".", 4)
		return tree{"matchExpressions": []any{tree{"key": fmt.Sprintf("%sio/%s%d", prefix[:248], strings.Repeat("k", 50), i), "operator": "Exists"}}}
	})
	content := daemonSet(nil, tree{"affinity": tree{"nodeAffinity": tree{"requiredDuringSchedulingIgnoredDuringExecution": tree{"nodeSelectorTerms": terms}}}})
	return Object{"480 long terms for Nodes", content, true}
}

// daemonSet returns a small DaemonSet that fits no Node, with additions to its spec and its Pods' spec.
func daemonSet(spec, pod tree) tree {
	out := base()
	out["kind"] = "DaemonSet"
	mine := out["spec"].(tree)
	delete(mine, "replicas")
	maps.Copy(mine, spec)
	podSpec := mine["template"].(tree)["spec"].(tree)
	podSpec["nodeSelector"] = tree{"example.test/none": "x"}
	maps.Copy(podSpec, pod)
	return out
}
