package sharedstatus

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// read reads an object. If the cache does not have the object, read asks the API server, because the object may be new.
func (s *Statuses[O, L]) read(ctx context.Context, key client.ObjectKey) (O, error) {
	object, err := s.get(ctx, s.client, key)
	if apierrors.IsNotFound(err) {
		return s.get(ctx, s.live, key)
	}
	return object, err
}

// get reads an object from the given reader. If the API server does not serve the kind, the error is not ErrGone,
// because the object may exist.
func (s *Statuses[O, L]) get(ctx context.Context, from client.Reader, key client.ObjectKey) (O, error) {
	object, _ := s.empty.DeepCopyObject().(O) // the copy has the same type
	err := from.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return object, fmt.Errorf("reading %s %s: %w", s.config.Noun, key, errors.Join(ErrGone, err))
	case err != nil:
		return object, fmt.Errorf("reading %s %s: %w", s.config.Noun, key, err)
	}
	return object, nil
}

// isOlder reports whether version a was written before version b.
func isOlder(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

// isRefusal reports whether the API server has certainly not carried out a request, and would refuse the same request
// again.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	return status.Status().Code < 500
}
