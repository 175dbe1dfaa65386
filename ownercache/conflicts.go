package ownercache

import (
	"context"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RetryConflicts returns a reconciler that retries with back-off after a conflict, without reporting an error:
// another client has written the object, and the next reconcile decides on the new state. Conflicts are logged at
// V(1). AddController and AddPodController call RetryConflicts themselves.
func RetryConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		result, err := r.Reconcile(ctx, req)
		if !isConflict(err) {
			return result, err
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("A conflict is tried again", "conflict", err.Error())
		return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // RequeueAfter would reset the back-off.
	})
}

// isConflict reports whether an error is a conflict, or consists only of conflicts.
func isConflict(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the code itself walks the tree of wrapped errors
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
