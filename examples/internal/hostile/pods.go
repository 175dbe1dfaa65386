package hostile

import (
	"fmt"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// Mesh returns a SidecarSet that selects the Pods of the function Pods, and uses every field whose meaning depends on a
// Pod. These Pods have a container named "app".
func Mesh() map[string]any {
	return tree{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": tree{"name": "mesh"},
		"spec": tree{
			"selector": tree{"matchLabels": tree{"mesh": "yes"}},
			"initContainers": []any{tree{
				"name": "native", "image": "example.test/native:v1", "restartPolicy": "Always", "shareVolumePolicy": tree{"type": "enabled"},
			}},
			"containers": []any{
				tree{
					"name": "hot", "image": "example.test/hot:v1", "shareVolumePolicy": tree{"type": "enabled"},
					"transferEnv":     []any{tree{"sourceContainerName": "app", "envNames": []any{"ZONE", "MISSING"}}},
					"upgradeStrategy": tree{"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "example.test/empty:v1"},
				},
				tree{
					"name": "sized", "image": "example.test/sized:v1", "shareVolumeDevicePolicy": tree{"type": "enabled"},
					"resourcesPolicy": tree{
						"targetContainersMode": "sum", "targetContainersNameRegex": "(a|aa|aaa|.)*(-|.)*x?.*",
						"resourcesExpr": tree{"limits": tree{"cpu": "max(cpu*50%, 50m)"}, "requests": tree{"memory": "max(memory*10%, 10Mi)"}},
					},
				},
			},
		},
	}
}

// Pods returns Pods for an attack, which Mesh selects; each call returns the same objects. The Pods are never
// scheduled.
func Pods() []Object {
	const most = 250 << 10 // a little more than the API server allows for all annotations of an object
	state := func(of string) tree {
		return tree{apps.AnnotationSidecarSetInjected: "mesh", apps.AnnotationSidecarSetInPlaceState: of}
	}
	names := strings.Join(stringsOf(most/8, func(i int) string { return fmt.Sprintf("s%06d", i) }), ",")
	lists := strings.Repeat("[", most/2) + strings.Repeat("]", most/2)
	return []Object{
		{"200 containers of 60 variables", pod(nil, func(spec tree) {
			spec["containers"] = repeated(200, func(i int) any {
				return tree{
					"name": fmt.Sprintf("c%d", i), "image": "example.test/app:v1",
					"env": repeated(60, func(i int) any { return tree{"name": fmt.Sprintf("E%d", i), "value": strings.Repeat("x", 60)} }),
				}
			})
		}), true}, // the Pod has no container named app from which an environment variable could be copied
		{"200 containers in 200 turns", pod(tree{apps.AnnotationLaunchPriority: apps.LaunchPriorityOrdered}, func(spec tree) {
			spec["containers"] = append(spec["containers"].([]any), repeated(200, func(i int) any {
				return tree{
					"name": fmt.Sprintf("c%d", i), "image": "example.test/app:v1",
					"env": []any{tree{"name": apps.EnvContainerPriority, "value": fmt.Sprint(i)}},
				}
			})...)
		}), true},
		{"20,000 volumes and mounts", mounted(20_000), true},
		{"10,000 mounts of one volume", pod(nil, func(spec tree) {
			spec["volumes"] = []any{tree{"name": "v", "emptyDir": tree{}}}
			appOf(spec)["volumeMounts"] = repeated(10_000, func(i int) any { return tree{"name": "v", "mountPath": fmt.Sprintf("/m/%d", i)} })
		}), true},
		{"20,000 variables to look through", pod(nil, func(spec tree) {
			appOf(spec)["env"] = repeated(20_000, func(i int) any { return tree{"name": fmt.Sprintf("E%d", i), "value": "x"} })
		}), true},
		{"100,000 containers", pod(nil, func(spec tree) { spec["containers"] = repeated(100_000, func(int) any { return tree{} }) }), false},
		{"30,000 SidecarSets that were injected", pod(tree{apps.AnnotationSidecarSetInjected: names}, nil), true},
		{"a state of lists in lists", pod(state(lists), nil), true},
		{"a state that asks for resources", pod(state(`{"mesh":{"revision":"x","updateTimestamp":"2026-01-01T00:00:00Z","lastContainerStatuses":null,`+
			`"nextContainerResources":{"app":{"limits":{"cpu":"1e-200000000"}}}}}`), nil), true},
		{"hashes that are none", pod(tree{apps.AnnotationSidecarSetHash: lists, apps.AnnotationSidecarSetHashWithoutImage: lists}, nil), false},
		{"a large quantity to compute with", pod(nil, func(spec tree) {
			appOf(spec)["resources"] = tree{"limits": tree{"cpu": strings.Repeat("9", 900_000)}}
		}), false},
	}
}

func stringsOf(n int, value func(i int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = value(i)
	}
	return out
}

// pod returns a Pod with a single container. change may be nil, and then changes nothing.
func pod(annotations tree, change func(spec tree)) tree {
	spec := tree{"schedulerName": "nobody", "containers": []any{tree{"name": "app", "image": "example.test/app:v1"}}}
	if change != nil {
		change(spec)
	}
	return tree{
		"apiVersion": "v1", "kind": "Pod", "metadata": tree{"labels": tree{"mesh": "yes"}, "annotations": annotations}, "spec": spec,
	}
}

func appOf(spec tree) tree { return spec["containers"].([]any)[0].(tree) }

func mounted(n int) tree {
	return pod(nil, func(spec tree) {
		spec["volumes"] = repeated(n, func(i int) any { return tree{"name": fmt.Sprintf("v%d", i), "emptyDir": tree{}} })
		appOf(spec)["volumeMounts"] = repeated(n, func(i int) any { return tree{"name": fmt.Sprintf("v%d", i), "mountPath": fmt.Sprintf("/m/%d", i)} })
	})
}
