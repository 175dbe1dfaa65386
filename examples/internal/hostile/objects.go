// Package hostile contains objects for tests that an attacker or a careless user might create: CloneSets that could
// crash admission, conversion or the controller, or whose processing could need minutes and gigabytes, and similar
// objects of other kinds.
package hostile

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

type tree = map[string]any

// Object is a harmful object of a kind of this project, or a harmful Pod.
type Object struct {
	// Name says what is harmful about the object.
	Name string
	// Content is the content of the object, without a name. Objects of this project's kinds have the version v1beta1.
	Content map[string]any
	// Passes is true if admission must accept the object, unless the API server finds errors in the template.
	Passes bool
}

// Objects returns CloneSets for an attack; each call returns the same objects.
func Objects() []Object {
	return append(large(), odd()...)
}

// large returns objects whose processing costs much time and memory.
func large() []Object {
	return []Object{
		{"200,000 podsToDelete", scaled(tree{"podsToDelete": repeated(200_000, func(i int) any { return fmt.Sprintf("p%05x", i) })}), false},
		{"60,000 podsToDelete", scaled(tree{"podsToDelete": repeated(60_000, func(i int) any { return fmt.Sprintf("p%05x", i) })}), false},
		{"60,000 podsToDelete that no Pod can be named", scaled(tree{"podsToDelete": repeated(60_000, func(i int) any { return fmt.Sprintf("_%05x", i) })}), false},
		{"30,000 scatter terms", updated("RollingUpdate", tree{"scatterStrategy": repeated(30_000, func(i int) any {
			return tree{"key": fmt.Sprintf("k%d", i), "value": "x"}
		})}), false},
		{"a selector of 90,000 values", selecting(90_000), false},
		{"a weight of 90,000 values", updated("RollingUpdate", tree{"priorityStrategy": tree{"weightPriority": []any{
			tree{"weight": 1, "matchSelector": tree{"matchExpressions": []any{notIn(90_000)}}},
		}}}), false},
		{"40,000 env names", made(func(_, c tree) {
			c["env"] = repeated(40_000, func(i int) any { return tree{"name": fmt.Sprintf("=%d", i)} })
		}), false},
		{"1,900 env names", made(func(_, c tree) {
			c["env"] = repeated(1_900, func(i int) any { return tree{"name": fmt.Sprintf("=%d", i)} })
		}), true},
		{"300,000 containers", made(func(p, _ tree) { p["spec"].(tree)["containers"] = repeated(300_000, func(int) any { return tree{} }) }), false},
		{"20,000 claim templates", claimed(20_000), false},
		{"half a million values nobody knows", made(func(p, _ tree) { p["future"] = repeated(500_000, func(int) any { return 1 }) }), false},
		{"a small quantity", made(func(_, c tree) { c["resources"] = tree{"limits": tree{"cpu": "1e-200000000"}} }), false},
		{"a large quantity", made(func(_, c tree) { c["resources"] = tree{"limits": tree{"cpu": strings.Repeat("9", 900_000)}} }), false},
		{"a deep template", made(func(p, _ tree) { p["future"] = Nested(9_900) }), false},
		{"an annotation of 3 MiB", made(func(p, _ tree) { p["metadata"].(tree)["annotations"] = tree{"a": strings.Repeat("x", 3<<20)} }), false},
	}
}

// odd returns objects that are hard to convert or to reconcile.
func odd() []Object {
	return []Object{
		{"a key in another case in the template", made(func(p, _ tree) { p["spec"].(tree)["SPEC"] = 5 }), true},
		{"a key in another case in a container", made(func(_, c tree) { c["Ports"] = "x" }), true},
		{"a quantity that is none", made(func(_, c tree) { c["resources"] = tree{"limits": tree{"cpu": "oops"}} }), false},
		{"an annotation that YAML has read as a bool", made(func(p, _ tree) { p["metadata"].(tree)["annotations"] = tree{"x": true} }), false},
		{"a user that is none", made(func(_, c tree) { c["securityContext"] = tree{"runAsUser": -1} }), true},
		{"settings of OnDelete larger than an annotation", updated("OnDelete", tree{
			"scatterStrategy": repeated(900, func(i int) any { return tree{"key": fmt.Sprint("k", i), "value": strings.Repeat("x", 400)} }),
		}), false},
		{"annotations that leave no room", annotated(tree{"a": strings.Repeat("x", 262_100)}), false},
		{"a note that restores an invalid label", annotated(tree{
			apps.AnnotationV1alpha1Only: note(tree{"path": []any{"metadata", "labels", "bad key!"}, "kept": "x"}),
		}), true},
	}
}

// base returns a small CloneSet without replicas.
func base() tree {
	return tree{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": tree{},
		"spec": tree{
			"replicas": 0, "selector": tree{"matchLabels": tree{"app": "web"}}, "updateStrategy": tree{"type": "OnDelete"},
			"template": tree{
				"metadata": tree{"labels": tree{"app": "web"}},
				"spec":     tree{"containers": []any{tree{"name": "app", "image": "example.test/app:v1"}}},
			},
		},
	}
}

func made(change func(template, container tree)) tree {
	out := base()
	template := out["spec"].(tree)["template"].(tree)
	change(template, template["spec"].(tree)["containers"].([]any)[0].(tree))
	return out
}

func scaled(strategy tree) tree {
	out := base()
	out["spec"].(tree)["scaleStrategy"] = strategy
	return out
}

func updated(kind string, rolling tree) tree {
	out := base()
	out["spec"].(tree)["updateStrategy"] = tree{"type": kind, "rollingUpdate": rolling}
	return out
}

// selecting returns a CloneSet whose selector has the given number of additional values.
func selecting(values int) tree {
	out := base()
	out["spec"].(tree)["selector"].(tree)["matchExpressions"] = []any{notIn(values)}
	return out
}

func notIn(values int) tree {
	return tree{"key": "app", "operator": "NotIn", "values": repeated(values, func(i int) any { return fmt.Sprintf("v%d", i) })}
}

func claimed(n int) tree {
	out := base()
	out["spec"].(tree)["volumeClaimTemplates"] = repeated(n, func(i int) any { return tree{"metadata": tree{"name": fmt.Sprintf("c%d", i)}} })
	return out
}

// annotated returns a CloneSet with annotations in which conversion stores fields.
func annotated(annotations tree) tree {
	out := updated("OnDelete", tree{"paused": true})
	out["metadata"].(tree)["annotations"] = annotations
	return out
}

func note(field tree) string {
	raw, err := json.Marshal(tree{"when": []any{"OnDelete"}, "fields": []any{field}})
	if err != nil {
		panic(err) // maps and strings can always be encoded
	}
	return string(raw)
}

func repeated(n int, value func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = value(i)
	}
	return out
}

// Nested returns arrays nested to the given depth.
func Nested(depth int) any {
	var out any = "x"
	for range depth {
		out = []any{out}
	}
	return out
}
