package reason

import (
	"errors"
	"slices"
)

// Final marks an error that a retry does not repair: an invalid value, a remembered refusal, or a fault that somebody
// must repair. A controller reports a final error and does not return the error to its queue. The next attempt
// follows after an event, or after a delay for which the source of the error has requeued the object. The returned
// error has the same text as err and wraps err; for nil, Final returns nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// IsFinal reports whether no part of err deserves a retry. IsFinal is false for nil.
func IsFinal(err error) bool { return err != nil && !retryable(err) }

// Retryable returns those errors that deserve a retry, joined, or nil. A joined error deserves a retry if any part
// does: a final error about a Pod says nothing about other Pods.
func Retryable(errs ...error) error {
	return errors.Join(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !retryable(err) })...)
}

func retryable(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the code itself walks the tree of wrapped errors
	case nil, final:
		return false
	case *withCause:
		return retryable(e.cause)
	case List:
		return true
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), retryable)
	case interface{ Unwrap() error }:
		return e.Unwrap() == nil || retryable(e.Unwrap())
	}
	return true
}
