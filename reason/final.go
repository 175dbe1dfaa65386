package reason

import (
	"errors"
	"slices"
)

// Final marks an error not repaired by another attempt: a bad value, a remembered refusal, or a fault for somebody to
// repair. A controller reports a final error and waits for an event, or for the time requested by the error's source,
// and does not return the error to its queue. Final reads as err and wraps err; nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// IsFinal reports whether no part of err is worth another attempt. IsFinal is false for nil.
func IsFinal(err error) bool { return err != nil && !retryable(err) }

// Retryable returns the errors worth another attempt, joined, or nil. A joined error is worth another attempt if any
// part is: a final error about a Pod says nothing about the next Pod.
func Retryable(errs ...error) error {
	return errors.Join(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !retryable(err) })...)
}

func retryable(err error) bool {
	switch e := err.(type) { //nolint:errorlint // The tree itself is walked.
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
