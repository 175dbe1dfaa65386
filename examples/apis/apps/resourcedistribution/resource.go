// Package resourcedistribution answers "what does a ResourceDistribution distribute?"
package resourcedistribution

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// These are the kinds that can be distributed.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// ResourcePath returns the path of the resource in a ResourceDistribution.
func ResourcePath() *field.Path { return field.NewPath("spec", "resource") }

// Object is a [corev1.ConfigMap] or a [corev1.Secret].
type Object interface {
	metav1.Object
	runtime.Object
}

// Resource is the resource of a ResourceDistribution. A Resource is read-only, and safe for concurrent use.
type Resource struct {
	// Kind is [ConfigMap] or [Secret].
	Kind string
	// Name is the name of all copies.
	Name string
	// Hash is the value of [apps.AnnotationDistributedHash].
	Hash string

	template Object
}

// Read parses the resource stored in spec.resource. Read also applies the API server's changes to a Secret:
// stringData becomes part of the data, and an unset type becomes Opaque. The problems name fields below path. If
// there are problems, the resource is nil.
func Read(raw []byte, path *field.Path) (*Resource, field.ErrorList) {
	if len(raw) == 0 {
		return nil, field.ErrorList{field.Required(path, "a whole ConfigMap or Secret")}
	}
	var head metav1.TypeMeta
	if err := decode.Object(raw, &head); err != nil {
		return nil, undecodable(err, path)
	}
	var errs field.ErrorList
	if version := corev1.SchemeGroupVersion.String(); head.APIVersion != version {
		errs = append(errs, field.NotSupported(path.Child("apiVersion"), head.APIVersion, []string{version}))
	}
	var template Object
	switch head.Kind {
	case ConfigMap:
		template = &corev1.ConfigMap{}
	case Secret:
		template = &corev1.Secret{}
	default:
		return nil, append(errs, field.NotSupported(path.Child("kind"), head.Kind, []string{ConfigMap, Secret}))
	}
	if err := decode.Object(raw, template); err != nil {
		return nil, append(errs, undecodable(err, path)...)
	}
	errs = append(errs, validateMeta(template, path.Child("metadata"))...)
	errs = append(errs, kept(template, path)...)
	errs = append(errs, complete(template, path)...)
	if len(errs) > 0 {
		return nil, errs
	}
	sum := sha256.Sum256(raw)
	return &Resource{Kind: head.Kind, Name: template.GetName(), Hash: hex.EncodeToString(sum[:]), template: template}, nil
}

// Named returns the kind and the name of a resource without validation; both are "" if the resource cannot be parsed.
func Named(raw []byte) (kind, name string) {
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := decode.Object(raw, &head); err != nil {
		return "", ""
	}
	return head.Kind, head.Metadata.Name
}

func undecodable(err error, path *field.Path) field.ErrorList {
	if problem, ok := errors.AsType[decode.Problem](err); ok && problem.Path != "" {
		return field.ErrorList{field.TypeInvalid(path.Child(problem.Path), field.OmitValueType{}, problem.Detail)}
	}
	return field.ErrorList{field.TypeInvalid(path, field.OmitValueType{}, err.Error())}
}

func validateMeta(template Object, path *field.Path) (errs field.ErrorList) {
	if name := template.GetName(); name == "" {
		errs = append(errs, field.Required(path.Child("name"), "all copies have this name"))
	} else {
		for _, problem := range apivalidation.NameIsDNSSubdomain(name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), name, problem))
		}
	}
	if len(template.GetOwnerReferences()) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ownerReferences"),
			"copies are owned by the ResourceDistribution alone; owners in other namespaces would have them collected as garbage"))
	}
	return errs
}

// kept refuses resources that Kubernetes itself writes in each namespace: Kubernetes and the controller would undo each
// other's writes without end.
func kept(template Object, path *field.Path) field.ErrorList {
	switch t := template.(type) {
	case *corev1.ConfigMap:
		if t.Name == rootCertificates {
			return field.ErrorList{field.Forbidden(path.Child("metadata", "name"), "Kubernetes keeps a ConfigMap of this name in each namespace itself")}
		}
	case *corev1.Secret:
		if t.Type == corev1.SecretTypeServiceAccountToken {
			return field.ErrorList{field.Forbidden(path.Child("type"), "Kubernetes writes the token of a ServiceAccount into each copy itself; create them where they are needed")}
		}
	}
	return nil
}

// rootCertificates is the name of the ConfigMap that pkg/controller/certificates/rootcacertpublisher writes.
const rootCertificates = "kube-root-ca.crt"

// complete makes the changes that the API server makes at a creation, so that copies can be compared with the template.
func complete(template Object, path *field.Path) field.ErrorList {
	size := 0
	switch t := template.(type) {
	case *corev1.ConfigMap:
		for key, value := range t.Data {
			size += len(key) + len(value)
		}
		for key, value := range t.BinaryData {
			size += len(key) + len(value)
		}
	case *corev1.Secret:
		if len(t.StringData) > 0 && t.Data == nil {
			t.Data = map[string][]byte{}
		}
		for key, value := range t.StringData {
			t.Data[key] = []byte(value)
		}
		t.StringData = nil
		if t.Type == "" {
			t.Type = corev1.SecretTypeOpaque
		}
		for key, value := range t.Data {
			size += len(key) + len(value)
		}
	}
	if size > corev1.MaxSecretSize { // the limit is the same for ConfigMaps and Secrets
		return field.ErrorList{field.TooLong(path.Child("data"), field.OmitValueType{}, corev1.MaxSecretSize)}
	}
	return nil
}

// Copy returns a copy of the resource for a namespace, with an owner reference to the distributor. Of the template's
// metadata, the copy gets the name, labels, annotations and finalizers.
func (r *Resource) Copy(namespace string, distributor metav1.OwnerReference) Object {
	out, ok := r.template.DeepCopyObject().(Object)
	if !ok {
		panic(fmt.Sprintf("a copy of a %T is a %T", r.template, out)) // DeepCopyObject always returns the same type
	}
	annotations := map[string]string{}
	maps.Copy(annotations, out.GetAnnotations())
	annotations[apps.AnnotationDistributedFrom], annotations[apps.AnnotationDistributedHash] = distributor.Name, r.Hash
	labels, finalizers := out.GetLabels(), slices.Clone(out.GetFinalizers())
	meta := metav1.ObjectMeta{
		Namespace: namespace, Name: r.Name, Labels: labels, Annotations: annotations, Finalizers: finalizers,
		OwnerReferences: []metav1.OwnerReference{distributor},
	}
	switch c := out.(type) {
	case *corev1.ConfigMap:
		c.ObjectMeta = meta
	case *corev1.Secret:
		c.ObjectMeta = meta
	}
	return out
}

// Empty returns an empty object of the resource's kind, into which a copy can be read.
func (r *Resource) Empty() Object {
	if r.Kind == Secret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}
