// Package specwebhook answers "how does my validating webhook refuse a bad spec, and only where somebody has just
// written it?".
//
// New makes a validator for controller-runtime from a function that checks one object:
//
//	validator := specwebhook.New[*Game, admission.Warnings](check)
//	err := ctrl.NewWebhookManagedBy(mgr, &Game{}).WithValidator(validator).Complete()
//
// A type whose UnmarshalJSON leaves out undecodable fields (decode.Fields) is always decoded; the check has to return
// the type's problems.
package specwebhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Validator checks created objects and objects with a changed spec. Any other change of an object passes, and so does
// its deletion: finalizers and labels of objects stored before the check existed must be removable. A changed spec
// shows by the generation. The API server counts the generation up before calling validating webhooks, for kinds with a
// status subresource.
//
// Validator is an admission.Validator of controller-runtime. W is the type Warnings of package admission. The import is
// missing here because admission would bring along packages needed by webhooks only. Make a Validator with New.
type Validator[T client.Object, W ~[]string] struct{ check func(T) error }

// New returns a Validator. check must be safe for concurrent use; the user reads the error of check.
func New[T client.Object, W ~[]string](check func(T) error) Validator[T, W] {
	return Validator[T, W]{check}
}

// ValidateCreate checks a new object.
func (v Validator[T, W]) ValidateCreate(_ context.Context, object T) (W, error) {
	return nil, v.check(object)
}

// ValidateUpdate checks an object of a new generation.
func (v Validator[T, W]) ValidateUpdate(_ context.Context, old, object T) (W, error) {
	if old.GetGeneration() == object.GetGeneration() {
		return nil, nil
	}
	return nil, v.check(object)
}

// ValidateDelete refuses nothing.
func (v Validator[T, W]) ValidateDelete(context.Context, T) (W, error) { return nil, nil }
