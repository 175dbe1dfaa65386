// Package judge validates the specs of the kinds, for controllers and for admission. The package of each kind reads
// and validates every value of a spec once, with a [Reading]. The controller uses the values, and admission refuses
// the [Faults]. Nothing in this package has side effects.
package judge

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// OddValue means that a value of the spec is not valid for its field, and was stored without admission. The
// controller interprets the value as OpenKruise does, so that objects that work under OpenKruise keep working.
const OddValue reason.Code = "OddValue"

// Fault describes a value of a spec that is invalid for its field. The controller reports the fault, and admission
// refuses the object.
type Fault struct {
	// Reason is what the controller reports about the value. The zero Reason means that the value is absent, and that
	// the controller uses the default.
	Reason reason.Reason
	// Refusal is the error with which admission refuses the value. Nil means that admission accepts the value.
	Refusal *field.Error
}

// Faults are the faults of a spec, in the order in which the fields were read.
type Faults []Fault

// Reasons returns what the controller reports about the faults.
func (f Faults) Reasons() (list reason.List) {
	for _, fault := range f {
		if fault.Reason != (reason.Reason{}) {
			list = append(list, fault.Reason)
		}
	}
	return list
}

// Refusals returns the errors with which admission refuses the spec.
func (f Faults) Refusals() (errs field.ErrorList) {
	for _, fault := range f {
		if fault.Refusal != nil {
			errs = append(errs, fault.Refusal)
		}
	}
	return errs
}

// Undecodable returns a fault for each part of a spec that could not be decoded.
func Undecodable(parts []decode.Problem) (faults Faults) {
	for i, why := range decode.Reasons(parts) {
		refusal := field.TypeInvalid(field.NewPath(parts[i].Path), field.OmitValueType{}, parts[i].Detail)
		faults = append(faults, Fault{why, refusal})
	}
	return faults
}

// Refused converts the errors of admission to reasons, each with the path, the value and the expected value.
func Refused(errs field.ErrorList) reason.List {
	list := make(reason.List, len(errs))
	for i, err := range errs {
		list[i] = reasonOf(partition.InvalidValue, err)
	}
	return list
}

// Written converts the text of a value in a reason.Reason to a value for a field.Error. A field.Error puts texts in
// quotes, and the text in a reason already has quotes if the value is a text.
func Written(value string) any {
	if text, err := strconv.Unquote(value); err == nil {
		return text
	}
	if n, err := strconv.Atoi(value); err == nil {
		return n
	}
	return value
}

func reasonOf(code reason.Code, err *field.Error) reason.Reason {
	kind, detail := err.Type.String(), err.Detail
	// ErrorBody returns "<type>: <value>: <detail>"; the value can be of any type.
	value := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(err.ErrorBody(), kind), ": "+detail), ": ")
	switch {
	case detail == "":
		detail = kind
	case value == "": // the error has no value, so the type of the error is added
		detail = kind + ": " + detail
	}
	return reason.Reason{Code: code, Path: err.Field, New: reason.Shorten(value, 200), Detail: detail}
}
