package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// review is a ConversionReview of apiextensions.k8s.io, whose versions v1 and v1beta1 have the same fields. Objects
// are kept as the bytes that the API server has sent.
type review struct {
	metav1.TypeMeta `json:",inline"`

	Request  *reviewRequest  `json:"request,omitempty"`
	Response *reviewResponse `json:"response,omitempty"`
}

type reviewRequest struct {
	UID               types.UID         `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type reviewResponse struct {
	UID              types.UID         `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           metav1.Status     `json:"result"`
}

// convertFunc converts a serialised object to an apiVersion.
type convertFunc func(object []byte, apiVersion string) ([]byte, error)

// converter serves conversion for all kinds.
type converter struct {
	kinds map[schema.GroupKind]convertFunc
	log   logr.Logger
}

// ServeHTTP answers a review. Invalid reviews get the status 400. If an object cannot be converted, the whole review
// fails, as the API requires.
func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "conversion reviews are posted", http.StatusMethodNotAllowed)
		return
	}
	var rev review
	err := json.NewDecoder(r.Body).Decode(&rev)
	switch gv, _ := schema.ParseGroupVersion(rev.APIVersion); {
	case err != nil:
		err = fmt.Errorf("decoding the conversion review: %w", err)
	case rev.Kind != "ConversionReview" || gv.Group != "apiextensions.k8s.io" || (gv.Version != "v1" && gv.Version != "v1beta1"):
		err = fmt.Errorf("%s %q is not a ConversionReview of apiextensions.k8s.io in v1 or v1beta1", rev.APIVersion, rev.Kind)
	case rev.Request == nil:
		err = errors.New("the conversion review has no request")
	}
	if err != nil {
		c.log.Error(err, "bad conversion request")
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rev.Response, rev.Request = c.answer(rev.Request), nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(rev); err != nil {
		c.log.Error(err, "answering a conversion request")
	}
}

// answer converts the objects in order, or names the object that could not be converted, with the reason.
func (c *converter) answer(req *reviewRequest) *reviewResponse {
	response := &reviewResponse{UID: req.UID, ConvertedObjects: make([]json.RawMessage, 0, len(req.Objects))}
	for i, object := range req.Objects {
		converted, err := c.convert(object, req.DesiredAPIVersion)
		if err != nil {
			err = fmt.Errorf("object %d of %d: %w", i+1, len(req.Objects), err)
			c.log.Error(err, "conversion failed", "uid", req.UID)
			response.ConvertedObjects = []json.RawMessage{}
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			return response
		}
		response.ConvertedObjects = append(response.ConvertedObjects, converted)
	}
	response.Result.Status = metav1.StatusSuccess
	return response
}

// convert converts an object. A panic becomes an error.
func (c *converter) convert(object []byte, apiVersion string) (_ []byte, err error) {
	var head metav1.PartialObjectMetadata
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		if err != nil {
			err = fmt.Errorf("converting %s %s/%s from %q to %q: %w", head.Kind, head.Namespace, head.Name, head.APIVersion, apiVersion, err)
		}
	}()
	if err := json.Unmarshal(object, &head); err != nil {
		return nil, fmt.Errorf("reading its metadata: %w", err)
	}
	kind := head.GroupVersionKind().GroupKind()
	convert, ok := c.kinds[kind]
	if !ok {
		return nil, fmt.Errorf("%s is not converted here", kind)
	}
	return convert(object, apiVersion)
}
