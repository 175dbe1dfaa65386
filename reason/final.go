package reason

import (
	"errors"
	"slices"
)

// Final marks an error that trying again does not mend: a bad value, a refusal that was remembered, something that somebody has
// to change. A controller reports it and waits for an event, or for the time that whoever returned it asks for; it does not
// return it to its queue. Final reads as err and wraps it; nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// IsFinal reports whether err is an error of which nothing is worth trying again. It is false for nil.
func IsFinal(err error) bool { return err != nil && !retryable(err) }

// Retryable returns what of the errors is worth trying again, joined, and nil where nothing is. An error that joins others is
// worth trying again if one of them is: what is final about one Pod says nothing about the next.
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
