// Package judge answers "what does a spec say, and what of it is wrong?". The room of a kind reads and judges each
// value of a spec once, with a [Reading]. The controller works with the values, and admission refuses the [Faults].
// Nothing here has effects.
package judge

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// OddValue means that a value of the spec does not suit its field. The value has bypassed admission, and the controller
// reads the value as OpenKruise does. So a take-over does not stop working objects.
const OddValue reason.Code = "OddValue"

// Fault is a value of a spec against the rules of its field, in the words of the controller and of admission.
type Fault struct {
	// Reason is the controller's report. The zero Reason means: the value is absent, and the controller has a default.
	Reason reason.Reason
	// Refusal is admission's report. Nil means: the writer of the value has made no mistake.
	Refusal *field.Error
}

// Faults are the faults of a spec in the order of reading.
type Faults []Fault

// Reasons returns the controller's reports.
func (f Faults) Reasons() (list reason.List) {
	for _, fault := range f {
		if fault.Reason != (reason.Reason{}) {
			list = append(list, fault.Reason)
		}
	}
	return list
}

// Refusals returns admission's reports.
func (f Faults) Refusals() (errs field.ErrorList) {
	for _, fault := range f {
		if fault.Refusal != nil {
			errs = append(errs, fault.Refusal)
		}
	}
	return errs
}

// Undecodable returns the parts of a spec left out by decoding.
func Undecodable(parts []decode.Problem) (faults Faults) {
	for i, why := range decode.Reasons(parts) {
		refusal := field.TypeInvalid(field.NewPath(parts[i].Path), field.OmitValueType{}, parts[i].Detail)
		faults = append(faults, Fault{why, refusal})
	}
	return faults
}

// Refused turns admission's reports into reasons: with path, value and the expected value.
func Refused(errs field.ErrorList) reason.List {
	list := make(reason.List, len(errs))
	for i, err := range errs {
		list[i] = reasonOf(partition.InvalidValue, err)
	}
	return list
}

func reasonOf(code reason.Code, err *field.Error) reason.Reason {
	kind, detail := err.Type.String(), err.Detail
	// The body is "<type>: <value>: <detail>", and formats values of all types.
	value := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(err.ErrorBody(), kind), ": "+detail), ": ")
	switch {
	case detail == "":
		detail = kind
	case value == "": // the detail alone does not name the fault
		detail = kind + ": " + detail
	}
	return reason.Reason{Code: code, Path: err.Field, New: reason.Shorten(value, 200), Detail: detail}
}
