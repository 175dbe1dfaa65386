package faultapi_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// thing is a typical custom resource: a spec, a status subresource, no defaults and no validation.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   thingSpec   `json:"spec,omitzero"`
	Status thingStatus `json:"status,omitzero"`
}

type thingSpec struct {
	Replicas *int32 `json:"replicas,omitempty"`
}

type thingStatus struct {
	Replicas int32 `json:"replicas,omitempty"`
}

func (in *thing) DeepCopyObject() runtime.Object {
	out := *in
	out.ObjectMeta = *in.ObjectMeta.DeepCopy()
	if in.Spec.Replicas != nil {
		out.Spec.Replicas = ptr.To(*in.Spec.Replicas)
	}
	return &out
}

type thingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []thing `json:"items"`
}

func (in *thingList) DeepCopyObject() runtime.Object {
	out := &thingList{TypeMeta: in.TypeMeta, ListMeta: *in.ListMeta.DeepCopy()}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopyObject().(*thing))
	}
	return out
}

func addThings(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "faultapi.test", Version: "v1"}
	scheme.AddKnownTypeWithName(version.WithKind("Thing"), &thing{})
	scheme.AddKnownTypeWithName(version.WithKind("ThingList"), &thingList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}

const thingCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.faultapi.test}
spec:
  group: faultapi.test
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {replicas: {type: integer}}}
          status: {type: object, properties: {replicas: {type: integer}}}
`
