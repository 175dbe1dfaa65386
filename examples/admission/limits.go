package admission

import (
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// maxObject bounds a new object, in bytes of JSON. etcd takes 1.5 MiB, and a template of such a size makes no Pods.
	maxObject = 1 << 20
	// maxDepth bounds the nesting of an object. The API server reads 10,000 levels, and adds some levels of its own to a
	// conversion review.
	maxDepth = 100
	// maxElements bounds the elements of all lists in a Pod template and the claim templates together, and in the
	// containers and volumes of a SidecarSet. The API server's work on a template with as many problems grows with the
	// square of their number, and cannot be stopped.
	maxElements = 2000
	// maxTermElements is the limit for the update strategy and the selector. Decoded terms are counted more precisely.
	maxTermElements = 5000
	// maxProblems is how many problems an answer names.
	maxProblems = 50
	// maxProblem is the maximum length of a problem in bytes. Each part of a longer problem is cut to maxProblem.
	maxProblem = 1 << 10
)

// tooMuch returns why an object is refused before decoding. stored is the object before an update, and excess already
// stored may stay.
func (k *Rules[Hub, Old]) tooMuch(raw, stored []byte, name string) error {
	if len(raw) > maxObject && len(raw) > len(stored) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s %q has %d bytes, at most %d are taken", k.GroupKind, name, len(raw), maxObject))
	}
	if depth := decode.Depth(raw); depth > maxDepth && depth > decode.Depth(stored) {
		problem := field.Invalid(field.NewPath("spec"), field.OmitValueType{}, fmt.Sprintf("is nested %d levels deep, at most %d are taken", depth, maxDepth))
		return apierrors.NewInvalid(k.GroupKind, name, field.ErrorList{problem})
	}
	if len(raw) <= maxElements {
		return nil // more elements would need more
	}
	next, before := specOf(raw), specOf(stored)
	for _, part := range []struct {
		most int
		keys []string // the first key gives the name
	}{
		{maxElements, []string{"template", "volumeClaimTemplates"}},
		{maxElements, []string{"containers", "initContainers", "volumes"}},
		{maxTermElements, []string{"updateStrategy", "selector"}},
	} {
		if n := elementsOf(next, part.keys); n > part.most && n > elementsOf(before, part.keys) {
			problem := field.Invalid(field.NewPath("spec", part.keys[0]), field.OmitValueType{}, fmt.Sprintf(
				"has %d elements in its lists, together with %s, at most %d are taken", n, strings.Join(part.keys[1:], " and "), part.most))
			return apierrors.NewInvalid(k.GroupKind, name, field.ErrorList{problem})
		}
	}
	return nil
}

// specOf returns no spec for an invalid object: the decoder reports the fault.
func specOf(object []byte) Spec {
	var parts struct {
		Spec Spec `json:"spec"`
	}
	if utiljson.Unmarshal(object, &parts) != nil {
		return nil
	}
	return parts.Spec
}

// elementsOf counts the elements in the lists of some fields.
func elementsOf(s Spec, keys []string) int {
	n := 0
	for _, key := range keys {
		n += decode.Elements(s[key])
	}
	return n
}

// capped shortens a list of problems. An error with all problems takes time and memory of the square of their number.
func capped(problems field.ErrorList) field.ErrorList {
	more := len(problems) - maxProblems
	out := make(field.ErrorList, 0, maxProblems+1)
	for _, problem := range problems[:min(len(problems), maxProblems)] {
		out = append(out, brief(problem))
	}
	if more > 0 {
		out = append(out, field.Forbidden(field.NewPath("spec"), fmt.Sprintf("and %d more problems", more)))
	}
	return out
}

// brief shortens long parts of a problem: the parts come from the user, and return several times in an answer.
func brief(problem *field.Error) *field.Error {
	if len(problem.Error()) <= maxProblem {
		return problem
	}
	out := *problem
	out.Field, out.Detail = reason.Shorten(out.Field, maxProblem), reason.Shorten(out.Detail, maxProblem)
	if value := reflect.ValueOf(out.BadValue); value.Kind() == reflect.String {
		out.BadValue = reason.Shorten(value.String(), maxProblem/2)
	} else if len(out.Error()) > 4*maxProblem {
		out.BadValue = field.OmitValueType{}
	}
	return &out
}
