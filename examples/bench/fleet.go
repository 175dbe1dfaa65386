package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/bench"
	"github.com/workloadkit/workloadkit/testing/install"
)

// fleetCRD is that of examples/embed, which is a command and cannot be imported; a test compares the two.
const fleetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: fleets.fleet.example.com
spec:
  group: fleet.example.com
  scope: Namespaced
  names: {kind: Fleet, listKind: FleetList, plural: fleets, singular: fleet}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [replicas, template]
              properties:
                replicas: {type: integer, minimum: 0}
                template: {x-kubernetes-preserve-unknown-fields: true}
`

// fleet is the kind of the operator in examples/embed. It has no status and always updates one Pod at a time.
func fleet() kind {
	gvk := schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Fleet"}
	return kind{about: "Fleet of examples/embed, one Pod at a time; the manager is built from there", Workload: bench.Workload{
		Name:    "embed",
		Install: func(ctx context.Context, c client.Client) error { return install.CRD(ctx, c, []byte(fleetCRD)) },
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

// asMap is a template for kinds without a Go type here.
func asMap(template *corev1.PodTemplateSpec) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		panic(err) // the type of the argument is known
	}
	return out
}
