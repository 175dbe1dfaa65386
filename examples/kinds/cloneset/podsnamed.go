package cloneset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// singleReads is the largest number of Pods that are read one by one. More names are looked up in a list of all
	// Pods that match the selector.
	singleReads = 8
	podsPerPage = 500
)

// podsNamed returns the metadata of the existing Pods with the given names. If there are more than singleReads names,
// Pods that do not match the selector are left out.
func podsNamed(ctx context.Context, reader client.Reader, namespace string, selector *metav1.LabelSelector, names sets.Set[string]) (map[string]metav1.Object, error) {
	if names.Len() > singleReads {
		return listNamed(ctx, reader, namespace, selector, names)
	}
	found := map[string]metav1.Object{}
	for _, name := range sets.List(names) {
		pod := &metav1.PartialObjectMetadata{}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
		switch {
		case err == nil:
			found[name] = pod
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return found, nil
}

func listNamed(ctx context.Context, reader client.Reader, namespace string, selector *metav1.LabelSelector, names sets.Set[string]) (map[string]metav1.Object, error) {
	matching, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, nil //nolint:nilerr // an invalid selector is reported elsewhere, and no Pod matches
	}
	found := map[string]metav1.Object{}
	pods := &metav1.PartialObjectMetadataList{}
	for {
		next := pods.Continue
		pods = &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := reader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: matching},
			client.Limit(podsPerPage), client.Continue(next))
		if err != nil {
			return nil, err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; names.Has(pod.Name) {
				found[pod.Name] = pod
			}
		}
		if pods.Continue == "" {
			return found, nil
		}
	}
}
