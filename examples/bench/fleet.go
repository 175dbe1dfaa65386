package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
func fleet() workload {
	kind := schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Fleet"}
	return workload{
		name: "embed", about: "Fleet of examples/embed, one Pod at a time; the manager is built from there",
		install: func(ctx context.Context, c client.Client) error { return install.CRD(ctx, c, []byte(fleetCRD)) },
		list: func() client.ObjectList {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind("FleetList"))
			return list
		},
		object: func(s shape) client.Object {
			object := &unstructured.Unstructured{Object: map[string]any{
				"spec": map[string]any{"replicas": int64(s.pods), "template": asMap(&s.template)},
			}}
			object.SetGroupVersionKind(kind)
			object.SetNamespace(namespace)
			object.SetName(s.name)
			return object
		},
	}
}
