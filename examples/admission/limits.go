package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/decode"
)

const (
	// maxReview bounds the body of a review, in bytes: an admission review holds two objects of 3 MiB each, and the API server has
	// objects converted one by one.
	maxReview = 8 << 20
	// maxInFlight bounds the bodies of the reviews that are worked on at a time. Small ones count as minWeight.
	maxInFlight, minWeight = 16 << 20, 64 << 10
	// patience is how long a review waits for others to end; the API server waits for 10 seconds by default. arrival is how long a body
	// may take: it waits with its reader's share taken.
	patience, arrival = 9 * time.Second, 3 * time.Second
)

const (
	// maxObject bounds a new object, in bytes of JSON. etcd takes one and a half MiB, and a template of that size makes no Pods.
	maxObject = 1 << 20
	// maxDepth bounds how deep an object is nested. The API server reads 10,000 levels, and adds some of its own when it asks for a
	// conversion.
	maxDepth = 100
	// maxElements bounds the elements of all lists in a Pod template together. What the API server needs for a template with as many
	// problems grows with the square of their number, and it is not to be stopped.
	maxElements = 2000
	// maxProblems is how many problems an answer names.
	maxProblems = 50
)

// limiter bounds what reviews cost together, whoever sends them.
type limiter struct{ inFlight *semaphore.Weighted }

func newLimiter() *limiter { return &limiter{semaphore.NewWeighted(maxInFlight)} }

// wrap returns the handler with the limits: 411 for what does not say how large it is, as the API server always does, 413 for what is
// too large, 503 while too much is under way.
func (l *limiter) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		switch {
		case size < 0:
			http.Error(w, "say how long the review is", http.StatusLengthRequired)
			return
		case size > maxReview:
			http.Error(w, fmt.Sprintf("a review has at most %d bytes", maxReview), http.StatusRequestEntityTooLarge)
			return
		}
		size = max(size, minWeight)
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if l.inFlight.Acquire(ctx, size) != nil {
			http.Error(w, "too many reviews are under way", http.StatusServiceUnavailable)
			return
		}
		defer l.inFlight.Release(size)
		// Who sends slowly must not keep others out. A writer without deadlines is a test's.
		_ = http.NewResponseController(w).SetReadDeadline(clock.RealClock{}.Now().Add(arrival))
		r.Body = http.MaxBytesReader(w, r.Body, maxReview)
		next.ServeHTTP(w, r)
	})
}

// tooMuch returns why an object is not even decoded. stored is the object before an update; what it has already may stay.
func (k *Kind[Hub, Old]) tooMuch(raw, stored []byte, name string) error {
	if len(raw) > maxObject && len(raw) > len(stored) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s %q has %d bytes, at most %d are taken", k.GroupKind, name, len(raw), maxObject))
	}
	if depth := decode.Depth(raw); depth > maxDepth && depth > decode.Depth(stored) {
		problem := field.Invalid(field.NewPath("spec"), field.OmitValueType{}, fmt.Sprintf("is nested %d levels deep, at most %d are taken", depth, maxDepth))
		return apierrors.NewInvalid(k.GroupKind, name, field.ErrorList{problem})
	}
	if elements := elementsOf(raw); elements > maxElements && elements > elementsOf(stored) {
		problem := field.Invalid(field.NewPath("spec", "template"), field.OmitValueType{}, fmt.Sprintf(
			"has %d elements in its lists, at most %d are taken", elements, maxElements))
		return apierrors.NewInvalid(k.GroupKind, name, field.ErrorList{problem})
	}
	return nil
}

// elementsOf counts the elements in the lists of an object's Pod template.
func elementsOf(raw []byte) int {
	if len(raw) <= maxElements {
		return 0 // as many would need more
	}
	var object struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if utiljson.Unmarshal(raw, &object) != nil {
		return 0 // to be said by whoever decodes it
	}
	return decode.Elements(object.Spec.Template)
}

// capped shortens a list of problems. An error with all of them takes time and memory of the square of their number.
func capped(problems field.ErrorList) field.ErrorList {
	if len(problems) <= maxProblems {
		return problems
	}
	more := field.Forbidden(field.NewPath("spec"), fmt.Sprintf("and %d more problems", len(problems)-maxProblems))
	return append(problems[:maxProblems:maxProblems], more)
}
