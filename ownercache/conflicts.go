package ownercache

import (
	"context"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RetryConflicts returns a reconciler that tries conflicts again like errors, without reporting an error: somebody has
// written in between, and the next pass decides on the new state. Conflicts are logged at V(1). AddController and
// AddPodController wrap their reconcilers themselves.
func RetryConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		result, err := r.Reconcile(ctx, req)
		if !isConflict(err) {
			return result, err
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("A conflict is tried again", "conflict", err.Error())
		return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // RequeueAfter would forget the number of attempts.
	})
}

// isConflict reports whether an error is a conflict, or several and nothing else.
func isConflict(err error) bool {
	switch e := err.(type) { //nolint:errorlint // The tree itself is walked.
	case nil:
		return false
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		for _, part := range parts {
			if !isConflict(part) {
				return false
			}
		}
		return len(parts) > 0
	case interface{ Unwrap() error }:
		return isConflict(e.Unwrap())
	}
	return apierrors.IsConflict(err)
}
