package ownercache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// TestRetryConflicts: a conflict, wrapped or not, leads to a retry without an error. If a conflict is joined with
// other errors, the errors are returned.
func TestRetryConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("the object has been modified"))
	other := errors.New("no answer")
	for name, tt := range map[string]struct {
		err   error
		quiet bool
	}{
		"none":                    {nil, false},
		"a conflict":              {conflict, true},
		"wrapped":                 {fmt.Errorf("writing: %w", fmt.Errorf("Pod a: %w", conflict)), true},
		"several":                 {errors.Join(conflict, fmt.Errorf("writing: %w", conflict)), true},
		"beside another":          {errors.Join(conflict, other), false},
		"another":                 {other, false},
		"why it could not happen": {reason.Reason{Code: "Blocked"}.With(conflict), false},
	} {
		var logged []string
		log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{Verbosity: 1})
		wrapped := ownercache.RetryConflicts(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, tt.err }))
		result, err := wrapped.Reconcile(logf.IntoContext(t.Context(), log), ctrl.Request{})
		again := result != ctrl.Result{}
		if again != tt.quiet || (err == nil) != (tt.quiet || tt.err == nil) || (len(logged) == 1) != tt.quiet || slices.Contains(logged, "error") {
			t.Errorf("%s: %+v, %v, logged %q", name, result, err, logged)
		}
	}
}
