// Package admission contains the webhook handlers for the kinds of apps.kruise.io. The response to the API server
// contains defaults as a patch, errors as a status, or the object converted to another API version.
//
// The package contains little logic. The defaults, the errors and the conversions come from the pure functions of
// examples/apis. Package admission decodes requests, calls these functions, and encodes responses. [Kind] describes a
// kind to the handlers, and the folder of each kind has a file for its description. [Handlers] returns the handlers for
// the kinds.
//
// # Promises
//
// Unknown fields are never lost. Templates may contain fields of a newer Kubernetes that the Go types do not have. So
// a patch contains only the differences between the typed objects before and after defaulting, and applies to the
// object that the API server has sent. No patch removes any part of spec.
//
// An object is refused with all its errors at once: status 422, reason Invalid, and a cause per error with the field's
// path in the API version of the request. Bodies that cannot be decoded get 400, or 422 with the path if a single field
// has the wrong type. Panics and failed reads get 500.
//
// While the feature gate of a feature is off, its webhooks admit everything.
//
// # Cost
//
// Users who may write objects determine the content of the reviews. The size limits the cost of a review, and a
// review waits while too many or too large reviews are being processed. Admission refuses an object before decoding
// if the object is larger than 1 MiB, nested deeper than 100 levels, or contains a number that takes minutes to
// parse. A response names at most 50 errors.
//
// # Stored objects may be invalid
//
// If a stored object cannot be decoded, an update is validated by the rules for new objects, so that users can repair
// the object. An update that does not change the spec is admitted with a warning, because users must be able to
// remove finalizers.
package admission

import (
	"maps"
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// These are paths that belong to no kind.
const (
	// ConvertPath is the path of conversion between the API versions of every kind.
	ConvertPath = "/convert"
	// HealthzPath returns 200 as long as the server runs.
	HealthzPath = "/healthz"
	// RestPath is the path of the handler for all other paths, which the webhook configurations of another manager
	// may name. If a review is about a kind of this project, the kind's handler responds. All other reviews are
	// admitted with a warning.
	RestPath = "/"
)

// Options say how requests are validated. With the zero value, feature gates have their defaults and no objects are
// read.
type Options struct {
	// Gates are the feature gates whose values differ from their defaults.
	Gates map[apps.Gate]bool
	// Reader reads the Pods that requests name, and the objects with which SidecarSets are compared. If Reader is
	// nil, checks that need a Reader are skipped. If Reader is a cache, requests that name a Pod that the cache does
	// not have yet are refused. If Reader reads from the API server, each name of a Pod costs a request.
	Reader client.Reader
	// Namespace is the manager's namespace, in which Reader finds the ConfigMap kruise-configuration and the
	// ControllerRevisions of SidecarSets. If empty, checks that need these are skipped.
	Namespace string
	// Client lets the API server validate changed Pod templates, by dry-run creations of PodTemplates. If nil,
	// templates are not validated.
	Client client.Writer
	// TemplateUnchecked is called with the reason if the API server could not be asked about a template. The user gets
	// a warning. Optional.
	TemplateUnchecked func(error)
	// Refused is called for each request that is refused because of deletion protection or a PodUnavailableBudget.
	// Optional.
	Refused func(Refusal)
	// UnknownPath is called with the path of each review at [RestPath]: at most 50 different paths, and [OtherPaths].
	// Optional.
	UnknownPath func(path string)
	// CutOff is called with the status of each review that is refused without being read, because of its size or
	// because too many reviews are being processed: 408, 411, 413 or 503. Optional.
	CutOff func(status int)
	// Log receives a line per refused request at V(1), and failures. With the zero value, nothing is logged.
	Log logr.Logger
}

// Endpoint is a [Kind] of any Go types.
type Endpoint interface {
	endpoint() endpoint
}

// endpoint contains the handlers and the conversion of a kind.
type endpoint struct {
	kind     schema.GroupKind
	handlers map[string]admission.Handler
	convert  func(object []byte, apiVersion string) ([]byte, error)
}

// Handlers returns all handlers by path: admission of each given kind, [ConvertPath], [HealthzPath] and [RestPath]. The
// handlers accept both review kinds in the versions v1 and v1beta1, are safe for concurrent use, and share the limits
// on concurrent reviews.
func Handlers(options Options, kinds ...Endpoint) map[string]http.Handler {
	converters := map[schema.GroupKind]convertFunc{}
	limits := newLimiter(options)
	handlers := map[string]http.Handler{HealthzPath: http.HandlerFunc(healthz)}
	for _, kind := range kinds {
		e := kind.endpoint()
		if e.convert != nil {
			converters[e.kind] = e.convert
		}
		for path, handler := range e.handlers {
			handlers[path] = limits.wrap(&admission.Webhook{Handler: handler, LogConstructor: loggerOf(options.Log)})
		}
	}
	handlers[ConvertPath] = limits.wrap(&converter{kinds: converters, log: options.Log.WithName("conversion")})
	handlers[RestPath] = limits.wrap(newRest(options.Log, options.UnknownPath, kinds))
	return handlers
}

// Paths returns the sorted paths of admission that [Handlers] serves for the kinds. Webhook configurations must use
// these paths.
func Paths(kinds ...Endpoint) []string {
	var paths []string
	for _, kind := range kinds {
		paths = slices.AppendSeq(paths, maps.Keys(kind.endpoint().handlers))
	}
	slices.Sort(paths)
	return paths
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok")) // an error means that the client has disconnected
}

// loggerOf returns a function that makes the logger of a request. Without the function, controller-runtime would use
// its global logger.
func loggerOf(log logr.Logger) func(logr.Logger, *admission.Request) logr.Logger {
	log = log.WithName("admission")
	return func(_ logr.Logger, req *admission.Request) logr.Logger {
		return admission.DefaultLogConstructor(log, req)
	}
}
