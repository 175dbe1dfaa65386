// Package mergepatch lets kubectl's own commands change objects of CRDs.
//
// The commands of kubectl send strategic merge patches. An API server refuses such a patch for a custom resource,
// because only the Go types of built-in kinds say how lists are merged. [Transport] applies the patch in the client:
// the transport reads the object, applies the patch with the Go type of the object, and sends the difference as a
// JSON merge patch with the resource version read before.
package mergepatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Transport is an [http.RoundTripper] that translates strategic merge patches. All other requests pass unchanged. A
// Transport is safe for concurrent use if the transport below is.
type Transport struct {
	// Below sends the requests; required.
	Below http.RoundTripper
	// Scheme has the Go types; required. A patch of an object without a type passes unchanged.
	Scheme *runtime.Scheme
	// Groups are the API groups of the CRDs.
	Groups []string
}

// attempts is how often a patch is computed again after a conflict.
const attempts = 5

// RoundTrip sends a request, translated if needed.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPatch || !t.concerns(request) {
		return t.Below.RoundTrip(request)
	}
	patch, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	if err := request.Body.Close(); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		response, err := t.send(request, patch)
		if err != nil || response.StatusCode != http.StatusConflict || attempt == attempts {
			return response, err
		}
		if err := response.Body.Close(); err != nil {
			return nil, err
		}
	}
}

func (t *Transport) concerns(request *http.Request) bool {
	if request.Header.Get("Content-Type") != string(types.StrategicMergePatchType) {
		return false
	}
	for _, group := range t.Groups {
		if strings.Contains(request.URL.Path, "/apis/"+group+"/") {
			return true
		}
	}
	return false
}

// send reads the object and sends the translated patch.
func (t *Transport) send(request *http.Request, patch []byte) (*http.Response, error) {
	read := request.Clone(request.Context())
	read.Method, read.Body, read.ContentLength, read.URL.RawQuery = http.MethodGet, nil, 0, ""
	read.Header.Del("Content-Type")
	read.Header.Set("Accept", "application/json")
	response, err := t.Below.RoundTrip(read)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	object, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	merge, kind, err := Translate(t.Scheme, object, patch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", request.URL.Path, err)
	}
	sent := request.Clone(request.Context())
	sent.Header.Set("Content-Type", string(kind))
	sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader(merge)), int64(len(merge))
	sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(merge)), nil }
	return t.Below.RoundTrip(sent)
}

// Translate translates a strategic merge patch of an object, and returns the patch to send and its type: a JSON merge
// patch, or the unchanged patch for an object whose type the scheme does not know.
func Translate(scheme *runtime.Scheme, object, patch []byte) ([]byte, types.PatchType, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &head); err != nil {
		return nil, "", err
	}
	typed, err := scheme.New(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if runtime.IsNotRegisteredError(err) {
		return patch, types.StrategicMergePatchType, nil
	}
	if err != nil {
		return nil, "", err
	}
	changed, err := strategicpatch.StrategicMergePatch(object, patch, typed)
	if err != nil {
		return nil, "", fmt.Errorf("strategic merge patch of %s: %w", head.Kind, err)
	}
	merge, err := jsonpatch.CreateMergePatch(object, changed)
	if err != nil {
		return nil, "", err
	}
	bound, err := jsonpatch.MergePatch(merge, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, head.Metadata.ResourceVersion))
	return bound, types.MergePatchType, err
}
