package podwrite

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsLasting reports whether the API server would return the same error if the request were repeated at once: every
// Refused error, and missing rights. Conflicts, throttling, missing objects, and requests without a response are not
// lasting.
func IsLasting(err error) bool {
	if errors.Is(err, Refused) {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusConflict &&
		code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && status.Status().Reason != metav1.StatusReasonNotFound
}
