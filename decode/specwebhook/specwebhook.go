// Package specwebhook answers "how does my validating webhook refuse an invalid spec, and only where somebody has just
// written it?".
//
// New turns a function that checks an object into a validator for controller-runtime:
//
//	validator := specwebhook.New[*Game, admission.Warnings](check)
//	err := ctrl.NewWebhookManagedBy(mgr, &Game{}).WithValidator(validator).Complete()
//
// If a type's UnmarshalJSON leaves out undecodable fields (decode.Fields), decoding never fails: the check has to
// return the problems kept in the object.
package specwebhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Validator checks created objects and objects with a changed spec. Validator allows any other change of an object, and
// its deletion: users must be able to remove finalizers and labels of objects that were stored before the check
// existed. Validator detects a changed spec by the generation. For kinds with a status subresource, the API server
// increases the generation before calling validating webhooks.
//
// Validator is an admission.Validator of controller-runtime. W is the type Warnings of package admission. Validator
// does not import package admission because the import would add many packages that only webhooks need. Make a
// Validator with New.
type Validator[T client.Object, W ~[]string] struct{ check func(T) error }

// New returns a Validator. check must be safe for concurrent use; users see the errors of check.
func New[T client.Object, W ~[]string](check func(T) error) Validator[T, W] {
	return Validator[T, W]{check}
}

// ValidateCreate checks a new object.
func (v Validator[T, W]) ValidateCreate(_ context.Context, object T) (W, error) {
	return nil, v.check(object)
}

// ValidateUpdate checks an object if its generation has changed.
func (v Validator[T, W]) ValidateUpdate(_ context.Context, old, object T) (W, error) {
	if old.GetGeneration() == object.GetGeneration() {
		return nil, nil
	}
	return nil, v.check(object)
}

// ValidateDelete allows every deletion.
func (v Validator[T, W]) ValidateDelete(context.Context, T) (W, error) { return nil, nil }
