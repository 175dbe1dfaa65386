package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/embed/fleet"
	"github.com/workloadkit/workloadkit/testing/bench"
	"github.com/workloadkit/workloadkit/testing/install"
)

// fleets describes, for the bench command, the kind Fleet of the example operator in examples/embed.
func fleets() measured {
	gvk := fleet.GroupVersion.WithKind("Fleet")
	return measured{about: "Fleet of examples/embed, one Pod at a time; the manager is built from there", Workload: bench.Workload{
		Name:    "embed",
		Install: func(ctx context.Context, c client.Client) error { return install.CRD(ctx, c, fleet.CRD) },
		List: func() client.ObjectList {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind("FleetList"))
			return list
		},
		Object: func(s bench.Shape) client.Object {
			object := &unstructured.Unstructured{Object: map[string]any{
				"spec": map[string]any{"replicas": int64(s.Pods), "template": asMap(&s.Template)},
			}}
			object.SetGroupVersionKind(gvk)
			object.SetNamespace(bench.Namespace)
			object.SetName(s.Name)
			return object
		},
	}}
}

// asMap converts a Pod template to a map, for kinds whose Go type this package does not import.
func asMap(template *corev1.PodTemplateSpec) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		panic(err) // a Pod template can always be converted
	}
	return out
}
