// Package specwebhook answers "how does my validating webhook refuse a bad spec, and only where somebody has just written it?".
//
// New makes a validator for controller-runtime from a function that checks one object:
//
//	err := ctrl.NewWebhookManagedBy(mgr, &Game{}).WithValidator(specwebhook.New(check)).Complete()
//
// A type whose UnmarshalJSON leaves out what it cannot decode (decode.Fields) is decoded whatever it says; its problems are for the
// check to return.
package specwebhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// New returns a validator of objects that are created, and of those whose spec is changed. What else is changed of an object passes,
// and so does its deletion: finalizers and labels of objects that were stored before the check was there must be able to go. A
// changed spec shows by the generation, which the API server counts up before it asks validating webhooks, of kinds that have a
// subresource for their status. check must be safe for concurrent use; its error is what the user reads.
func New[T client.Object](check func(T) error) admission.Validator[T] { return validator[T]{check} }

type validator[T client.Object] struct{ check func(T) error }

// ValidateCreate checks the object.
func (v validator[T]) ValidateCreate(_ context.Context, object T) (admission.Warnings, error) {
	return nil, v.check(object)
}

// ValidateUpdate checks an object of a new generation.
func (v validator[T]) ValidateUpdate(_ context.Context, old, object T) (admission.Warnings, error) {
	if old.GetGeneration() == object.GetGeneration() {
		return nil, nil
	}
	return nil, v.check(object)
}

// ValidateDelete refuses nothing.
func (v validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }
