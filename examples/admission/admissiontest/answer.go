package admissiontest

import (
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is the part of a response that a user sees. The zero value means that the request is allowed.
type Answer struct {
	Code   int32
	Reason metav1.StatusReason
	Causes []string // "field: type: message"
}

// Answered returns the Answer in a response.
func Answered(response *admissionv1.AdmissionResponse) Answer {
	if response.Allowed {
		return Answer{}
	}
	a := Answer{Code: response.Result.Code, Reason: response.Result.Reason}
	if response.Result.Details != nil {
		for _, cause := range response.Result.Details.Causes {
			a.Causes = append(a.Causes, cause.Field+": "+string(cause.Type)+": "+cause.Message)
		}
	}
	return a
}

// Invalid returns the Answer for an invalid object with the given causes.
func Invalid(causes ...string) Answer {
	return Answer{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Causes: causes}
}
