package conversion_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1alpha1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// specs returns the types of specs by kind: the type of v1alpha1, then the type of v1beta1.
func specs() map[string][2]reflect.Type {
	return map[string][2]reflect.Type{
		"AdvancedCronJob":          {reflect.TypeFor[v1alpha1.AdvancedCronJobSpec](), reflect.TypeFor[v1beta1.AdvancedCronJobSpec]()},
		"BroadcastJob":             {reflect.TypeFor[v1beta1.BroadcastJobSpec](), reflect.TypeFor[v1beta1.BroadcastJobSpec]()},
		"CloneSet":                 {reflect.TypeFor[v1alpha1.CloneSetSpec](), reflect.TypeFor[v1beta1.CloneSetSpec]()},
		"ContainerRecreateRequest": {reflect.TypeFor[v1alpha1.ContainerRecreateRequestSpec](), reflect.TypeFor[v1beta1.ContainerRecreateRequestSpec]()},
		"DaemonSet":                {reflect.TypeFor[v1alpha1.DaemonSetSpec](), reflect.TypeFor[v1beta1.DaemonSetSpec]()},
		"PersistentPodState":       {reflect.TypeFor[v1alpha1.PersistentPodStateSpec](), reflect.TypeFor[v1beta1.PersistentPodStateSpec]()},
		"PodUnavailableBudget":     {reflect.TypeFor[policyv1alpha1.PodUnavailableBudgetSpec](), reflect.TypeFor[policyv1beta1.PodUnavailableBudgetSpec]()},
		"ResourceDistribution":     {reflect.TypeFor[v1alpha1.ResourceDistributionSpec](), reflect.TypeFor[v1beta1.ResourceDistributionSpec]()},
		"SidecarSet":               {reflect.TypeFor[v1alpha1.SidecarSetSpec](), reflect.TypeFor[v1beta1.SidecarSetSpec]()},
		"StatefulSet":              {reflect.TypeFor[v1alpha1.StatefulSetSpec](), reflect.TypeFor[v1beta1.StatefulSetSpec]()},
		"UnitedDeployment":         {reflect.TypeFor[v1alpha1.UnitedDeploymentSpec](), reflect.TypeFor[v1beta1.UnitedDeploymentSpec]()},
		"WorkloadSpread":           {reflect.TypeFor[v1alpha1.WorkloadSpreadSpec](), reflect.TypeFor[v1beta1.WorkloadSpreadSpec]()},
	}
}

// drawEmpty returns a random value of a type. Most fields of structs are present, and most values are empty, such as
// false or [].
func drawEmpty(r *rand.Rand, t reflect.Type, depth int) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[intstr.IntOrString]():
		return []any{0.0, "", "0%", 3.0}[r.IntN(4)]
	case t == reflect.TypeFor[corev1.PodTemplateSpec](), t == reflect.TypeFor[metav1.ObjectMeta](), t == reflect.TypeFor[runtime.RawExtension](),
		t == reflect.TypeFor[batchv1.JobSpec](), t == reflect.TypeFor[pub.SidecarContainer](), t == reflect.TypeFor[corev1.Volume](),
		t == reflect.TypeFor[appsv1.DeploymentSpec](), t == reflect.TypeFor[appsv1.StatefulSetSpec](),
		t == reflect.TypeFor[corev1.PersistentVolumeClaimSpec](), t == reflect.TypeFor[corev1.PersistentVolumeClaimStatus]():
		return map[string]any{}
	case t == reflect.TypeFor[metav1.Time]():
		return "2026-03-01T00:00:00Z"
	}
	some := r.IntN(4) == 0
	switch t.Kind() {
	case reflect.Bool:
		return some
	case reflect.String:
		return map[bool]string{true: "x"}[some]
	case reflect.Slice:
		out := []any{}
		for some = some && depth < 6; some && len(out) < 2; {
			out = append(out, drawEmpty(r, t.Elem(), depth+1))
		}
		return out
	case reflect.Map:
		if some {
			return map[string]any{"a": drawEmpty(r, t.Elem(), depth+1)}
		}
		return map[string]any{}
	case reflect.Struct:
		out := map[string]any{}
		drawFields(r, t, depth, out)
		return out
	}
	return float64(r.IntN(2)) * map[bool]float64{true: 1}[some]
}

func drawFields(r *rand.Rand, t reflect.Type, depth int, into map[string]any) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			drawFields(r, field.Type, depth, into)
		case name == "imageListPullJobTemplate", name == "strategy": // admission refuses or drops such values
		case name != "-" && depth < 7 && r.IntN(3) > 0:
			into[name] = drawEmpty(r, field.Type, depth+1)
		}
	}
}

// missing returns the paths of values in written that differ in read.
func missing(path string, written, read any) (out []string) {
	switch written := written.(type) {
	case map[string]any:
		other, ok := read.(map[string]any)
		if !ok {
			return []string{path}
		}
		for key := range written {
			if value, kept := other[key]; kept {
				out = append(out, missing(path+"."+key, written[key], value)...)
			} else {
				out = append(out, path+"."+key)
			}
		}
		return out
	case []any:
		other, ok := read.([]any)
		if !ok || len(other) != len(written) {
			return []string{path}
		}
		for i := range written {
			out = append(out, missing(fmt.Sprintf("%s[%d]", path, i), written[i], other[i])...)
		}
		return out
	}
	if !reflect.DeepEqual(written, read) {
		return []string{path}
	}
	return nil
}

// TestEmptyValuesSurvive: conversion to the second version and back keeps every value that a user has written,
// including false and 0. So applying an unchanged file changes nothing.
func TestEmptyValuesSurvive(t *testing.T) {
	for kind, types := range specs() {
		group := "apps.kruise.io/"
		if kind == "PodUnavailableBudget" {
			group = "policy.kruise.io/"
		}
		for i, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(kind+" "+version, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(len(kind)), uint64(i)))
				for range 300 {
					spec := drawEmpty(r, types[i], 0)
					there, back := throughOther(t, group, kind, version, spec)
					if lost := missing("spec", spec, back["spec"]); len(lost) > 0 {
						t.Fatalf("%v are lost of %s\nthrough %s", lost, written(t, spec), written(t, there))
					}
					again, _ := throughOther(t, group, kind, version, back["spec"])
					if diff := cmp.Diff(there["spec"], again["spec"]); diff != "" {
						t.Fatalf("what was read and is written again is another (-first +second):\n%s", diff)
					}
				}
			})
		}
	}
}

func written(t *testing.T, value any) []byte {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// throughOther converts an object with a spec to the second version and back.
func throughOther(t *testing.T, group, kind, version string, spec any) (there, back map[string]any) {
	t.Helper()
	other := map[string]string{"v1alpha1": "v1beta1", "v1beta1": "v1alpha1"}[version]
	object := written(t, map[string]any{"apiVersion": group + version, "kind": kind, "metadata": map[string]any{"name": "a"}, "spec": spec})
	for _, step := range []struct {
		version string
		into    *map[string]any
	}{{other, &there}, {version, &back}} {
		var err error
		if object, err = conversion.JSON(object, group+step.version); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(object, step.into); err != nil {
			t.Fatal(err)
		}
	}
	return there, back
}
