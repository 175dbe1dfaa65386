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
	// maxObject is the largest size of a new object, in bytes of JSON. etcd accepts 1.5 MiB, but no Pods could be
	// created from such a large template.
	maxObject = 1 << 20
	// maxDepth is the largest nesting depth of an object. In a ConversionReview, an object is nested deeper by a few
	// levels, and the API server refuses more than 10,000 levels. So an object near the API server's limit could be
	// stored, but never be converted.
	maxDepth = 100
	// maxElements is the largest number of elements of all lists in a Pod template and the claim templates together,
	// and in the containers and volumes of a SidecarSet. The API server's time to validate a template grows with the
	// square of the number of errors, and the validation cannot be stopped.
	maxElements = 2000
	// maxTermElements is the largest number of elements of all lists in the update strategy and the selector. After
	// decoding, the terms of selectors are counted more precisely.
	maxTermElements = 5000
	// maxProblems is the largest number of errors in a response.
	maxProblems = 50
	// maxProblem is the largest length of an error in bytes. Each part of a longer error is shortened to maxProblem.
	maxProblem = 1 << 10
)

// tooMuch returns the error for an object that exceeds a limit, before the object is decoded. stored is the object
// before an update. An update is accepted if the stored object already exceeds the limit by as much.
func (k *Rules[Hub, Old]) tooMuch(raw, stored []byte, name string) error {
	if len(raw) > maxObject && len(raw) > len(stored) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s %q has %d bytes, at most %d are taken", k.GroupKind, name, len(raw), maxObject))
	}
	if depth := decode.Depth(raw); depth > maxDepth && depth > decode.Depth(stored) {
		problem := field.Invalid(field.NewPath("spec"), field.OmitValueType{}, fmt.Sprintf("is nested %d levels deep, at most %d are taken", depth, maxDepth))
		return apierrors.NewInvalid(k.GroupKind, name, field.ErrorList{problem})
	}
	if len(raw) <= maxElements {
		return nil // more elements would need more bytes
	}
	next, before := specOf(raw), specOf(stored)
	for _, part := range []struct {
		most int
		keys []string // the first key names the field in errors
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

// specOf returns an empty spec for an invalid object, because the decoder reports the error.
func specOf(object []byte) Spec {
	var parts struct {
		Spec Spec `json:"spec"`
	}
	if utiljson.Unmarshal(object, &parts) != nil {
		return nil
	}
	return parts.Spec
}

// elementsOf counts the elements of the lists in some fields.
func elementsOf(s Spec, keys []string) int {
	n := 0
	for _, key := range keys {
		n += decode.Elements(s[key])
	}
	return n
}

// capped shortens a list of errors, because joining all errors would take time and memory that grow with the square
// of the number of errors.
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

// brief shortens long texts of an error, because these texts come from the user, and a response repeats the error
// several times.
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
