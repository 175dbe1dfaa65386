package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoReader means that the Options contain no Reader.
var errNoReader = errors.New("there is no client to look it up with")

// pageOfContent is the size of a page of a list. The count ends with the first page that contains relevant objects.
const pageOfContent = 500

// podsAndClaims counts the active Pods in a namespace, or if there are none, its bound claims.
func (p *protection) podsAndClaims(ctx context.Context, namespace *protected) (content, error) {
	active := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	pods, err := p.count(ctx, metadataList(corev1.SchemeGroupVersion.WithKind("PodList")), nil,
		client.InNamespace(namespace.Name), client.MatchingFieldsSelector{Selector: active})
	pods.what = "active Pods"
	if err != nil || pods.count > 0 {
		return pods, err
	}
	isBound := func(object client.Object) bool {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		return ok && claim.Status.Phase == corev1.ClaimBound
	}
	claims, err := p.count(ctx, &corev1.PersistentVolumeClaimList{}, isBound, client.InNamespace(namespace.Name))
	claims.what = "bound PersistentVolumeClaims"
	return claims, err
}

// customResources counts the objects of a CustomResourceDefinition's kind. Any client of the webhooks' port can cause
// such a count, but cannot count objects of Kubernetes' kinds, because the API group in a CustomResourceDefinition
// must contain a dot.
func (p *protection) customResources(ctx context.Context, crd *protected) (content, error) {
	if !strings.Contains(crd.Spec.Group, ".") {
		return content{}, fmt.Errorf("spec.group %q is none of a CustomResourceDefinition", crd.Spec.Group)
	}
	for _, version := range crd.Spec.Versions {
		if !version.Served { // the stored version may not be served, and every served version shows all objects
			continue
		}
		kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind + "List"}
		held, err := p.count(ctx, metadataList(kind), nil)
		if apimeta.IsNoMatchError(err) && !crd.isEstablished() {
			return content{}, nil // no object can have been created
		}
		held.what = "custom resources"
		return held, err
	}
	return content{}, errors.New("the CustomResourceDefinition has no version that is served")
}

// isEstablished reports whether the API server has ever served the kind of a CustomResourceDefinition.
func (o *protected) isEstablished() bool {
	for _, condition := range o.Status.Conditions {
		if condition.Type == "Established" {
			return condition.Status == "True"
		}
	}
	return false
}

func metadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	return list
}

// count counts the objects for which matters returns true and that are not being deleted. The count reads page by
// page, and ends with the first page that contains such objects. If matters is nil, all objects count.
func (p *protection) count(ctx context.Context, list client.ObjectList, matters func(client.Object) bool, options ...client.ListOption) (content, error) {
	if p.options.Reader == nil {
		return content{}, errNoReader
	}
	for {
		page := []client.ListOption{client.Limit(pageOfContent), client.Continue(list.GetContinue())}
		if err := p.options.Reader.List(ctx, list, append(page, options...)...); err != nil {
			return content{}, err
		}
		n := 0
		err := apimeta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok && object.GetDeletionTimestamp() == nil && (matters == nil || matters(object)) {
				n++
			}
			return nil
		})
		if err != nil || n > 0 || list.GetContinue() == "" {
			return content{count: n, orMore: list.GetContinue() != ""}, err
		}
	}
}
