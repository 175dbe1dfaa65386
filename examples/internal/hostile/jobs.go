package hostile

import (
	"fmt"
	"maps"
	"strings"
)

// Jobs returns BroadcastJobs and AdvancedCronJobs for an attack; each call returns the same objects. The Pods fit no
// Node, so no job that an AdvancedCronJob creates ever ends.
func Jobs() []Object {
	return append(broadcastJobs(), cronJobs()...)
}

func broadcastJobs() []Object {
	terms := func(n int) tree {
		return tree{"affinity": tree{"nodeAffinity": tree{"requiredDuringSchedulingIgnoredDuringExecution": tree{"nodeSelectorTerms": repeated(n, func(i int) any {
			return tree{"matchExpressions": []any{tree{"key": "zone", "operator": "In", "values": []any{fmt.Sprintf("v%d", i)}}}}
		})}}}}
	}
	return []Object{
		{"20,000 terms for the Nodes of a job", broadcastJob(nil, terms(20_000)), false},
		{"300 terms for the Nodes of a job", broadcastJob(nil, terms(300)), true},
		{"20,000 tolerations of a job", broadcastJob(nil, tree{"tolerations": repeated(20_000, func(i int) any {
			return tree{"key": fmt.Sprintf("k%d", i), "operator": "Exists"}
		})}), false},
		{"a parallelism of a megabyte", broadcastJob(tree{"parallelism": strings.Repeat("9", 900_000) + "%"}, nil), false},
		{"a completion policy of a megabyte", broadcastJob(tree{"completionPolicy": tree{"type": strings.Repeat("x", 900_000)}}, nil), false},
		{"a TTL that has ended before it began", broadcastJob(tree{"completionPolicy": tree{"type": "Always", "ttlSecondsAfterFinished": -1 << 31}}, nil), false},
	}
}

func cronJobs() []Object {
	plain := broadcastJob(nil, nil)["spec"].(tree)
	of := func(schedule string, more tree) tree {
		out := tree{
			"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob", "metadata": tree{},
			"spec": tree{"schedule": schedule, "paused": true, "template": tree{"broadcastJobTemplate": tree{"spec": plain}}},
		}
		maps.Copy(out["spec"].(tree), more)
		return out
	}
	return []Object{
		{"a schedule of 400,000 minutes", of(strings.TrimSuffix(strings.Repeat("1,", 400_000), ",")+" * * * *", nil), false},
		{"a schedule of half a megabyte of time zone", of("TZ="+strings.Repeat("A/", 250_000)+" * * * * *", nil), false},
		{"a schedule of each nanosecond", of("@every 1ns", nil), false},
		{"a schedule that never fires", of("0 0 31 2 *", nil), false},
		{"a time zone that is a path", of("* * * * *", tree{"timeZone": strings.Repeat("../", 1000) + "etc/passwd"}), false},
		{"a deadline at the end of time", of("* * * * *", tree{"startingDeadlineSeconds": int64(1) << 53}), true},
		{"a job of 20,000 containers", of("* * * * *", tree{"template": tree{"jobTemplate": tree{"spec": tree{"template": tree{"spec": tree{
			"restartPolicy": "Never", "containers": repeated(20_000, func(i int) any { return tree{"name": fmt.Sprintf("c%d", i), "image": "x"} }),
		}}}}}}), false},
	}
}

// broadcastJob returns a small BroadcastJob that fits no Node, with additions to its spec and its Pods' spec.
func broadcastJob(spec, pod tree) tree {
	podSpec := tree{
		"restartPolicy": "Never", "nodeSelector": tree{"example.test/none": "x"}, "containers": []any{tree{"name": "app", "image": "example.test/app:v1"}},
	}
	maps.Copy(podSpec, pod)
	out := tree{"template": tree{"spec": podSpec}}
	maps.Copy(out, spec)
	return tree{"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": tree{}, "spec": out}
}

// Policies returns PodUnavailableBudgets and PersistentPodStates for an attack; each call returns the same objects. The
// objects select no Pod.
func Policies() []Object {
	budget := func(spec tree) tree {
		return tree{"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": tree{}, "spec": spec}
	}
	state := func(spec tree) tree {
		spec["targetRef"] = tree{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "none"}
		return tree{"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "metadata": tree{}, "spec": spec}
	}
	selecting := func(expressions ...any) tree {
		return tree{"selector": tree{"matchLabels": tree{"app": "none"}, "matchExpressions": expressions}, "maxUnavailable": 1}
	}
	keys := func(n int) tree {
		return tree{"keys": repeated(n, func(i int) any { return fmt.Sprintf("example.test/k%d", i) })}
	}
	return []Object{
		{"a budget of 90,000 values", budget(selecting(notIn(90_000))), false},
		{"a budget of 20,000 labels", budget(selecting(repeated(20_000, func(i int) any { return tree{"key": fmt.Sprintf("k%d", i), "operator": "Exists"} })...)), false},
		{"a budget of a megabyte per cent", budget(tree{"selector": tree{"matchLabels": tree{"app": "none"}}, "minAvailable": strings.Repeat("9", 900_000) + "%"}), false},
		{"a budget for a path", budget(tree{"targetRef": tree{"apiVersion": "../../v1", "kind": "secrets/", "name": "../x"}, "maxUnavailable": 1}), false},
		{"20,000 keys of Nodes to keep", state(tree{"requiredPersistentTopology": keys(20_000)}), false},
		{"20,000 preferences of Nodes", state(tree{"preferredPersistentTopology": repeated(20_000, func(int) any { return tree{"weight": 1, "preference": keys(1)} })}), false},
	}
}
