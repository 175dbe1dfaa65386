// Package specwebhook answers "how does my validating webhook refuse a bad spec, and only where somebody has just written it?".
//
// New makes a validator for controller-runtime from a function that checks one object:
//
//	validator := specwebhook.New[*Game, admission.Warnings](check)
//	err := ctrl.NewWebhookManagedBy(mgr, &Game{}).WithValidator(validator).Complete()
//
// A type whose UnmarshalJSON leaves out what it cannot decode (decode.Fields) is decoded whatever it says; its problems are for the
// check to return.
package specwebhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Validator checks objects that are created, and those whose spec is changed. What else is changed of an object passes, and so
// does its deletion: finalizers and labels of objects that were stored before the check was there must be able to go. A changed
// spec shows by the generation, which the API server counts up before it asks validating webhooks, of kinds that have a subresource
// for their status.
//
// It is an admission.Validator of controller-runtime. W is that package's Warnings, which is not imported here because it would
// bring along what only webhooks need. Make it with New.
type Validator[T client.Object, W ~[]string] struct{ check func(T) error }

// New returns a Validator. check must be safe for concurrent use; its error is what the user reads.
func New[T client.Object, W ~[]string](check func(T) error) Validator[T, W] {
	return Validator[T, W]{check}
}

// ValidateCreate checks the object.
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
