// Package admission answers "what does the API server get back when it asks about an object of apps.kruise.io?". The
// answer has defaults as a patch, problems as a status, or the object converted to the second version.
//
// The package is a thin layer. The pure functions of examples/apis decide about defaults, refusals and conversion.
// Package admission decodes requests, calls the functions, and encodes answers. [Kind] describes a kind, and each kind
// has its own file for nothing else. [Handlers] lists the kinds.
//
// # Promises
//
// An answer never loses unknown fields. Templates may hold fields of a Kubernetes newer than the Go types. So a patch
// is the difference between the typed objects before and after defaulting, applied to the object as sent. No patch
// removes any part of spec.
//
// An object is refused for all its problems at once: 422, reason Invalid, and a cause per problem with the field's path
// in the version of the request. Invalid bodies get 400, or 422 with the path when a single field has the wrong type.
// Panics and failed lookups get 500.
//
// A feature lets everything pass while off.
//
// # Cost
//
// Users who may write objects decide about the reviews. The size of a review bounds its cost, and many or large reviews
// wait for each other. Admission refuses excessive objects before decoding: more than 1 MiB, 100 levels, or numbers
// with minutes of reading time. An answer names 50 problems.
//
// # Stored objects may be invalid
//
// An update of an undecodable stored object is judged like a creation, so users can repair the object. An update
// without a change of the spec is admitted, with a warning: finalizers have to go.
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

// Paths without a kind.
const (
	// ConvertPath serves conversion between the versions of every kind.
	ConvertPath = "/convert"
	// HealthzPath answers 200 as long as the server serves.
	HealthzPath = "/healthz"
	// RestPath stands for all other paths, which configurations of another manager name. Reviews of this project's own
	// kinds get the answer of their kind. Other reviews are allowed, with a warning.
	RestPath = "/"
)

// Options say how requests are judged. The zero value judges with the default gates and looks nothing up.
type Options struct {
	// Gates are the feature gates with values other than their defaults.
	Gates map[apps.Gate]bool
	// Reader finds the Pods named by requests, and the objects that SidecarSets have to agree with. A nil Reader skips
	// checks that need a Reader. A late cache refuses Pods not yet cached. With a client of the API server each such name
	// costs a request.
	Reader client.Reader
	// Namespace is the manager's namespace: Reader finds ConfigMap kruise-configuration and the ControllerRevisions of
	// SidecarSets there. An empty Namespace skips checks that need a Namespace.
	Namespace string
	// Client lets the API server judge changed Pod templates, by dry-run creations of PodTemplates. With a nil Client all
	// templates pass.
	Client client.Writer
	// TemplateUnchecked is told why the API server could not be asked about a template. The user gets a warning. Optional.
	TemplateUnchecked func(error)
	// Refused is called for each request refused to protect an object. Optional.
	Refused func(Refusal)
	// UnknownPath is told the path of each review at [RestPath]: at most 50 different ones, and [OtherPaths]. Optional.
	UnknownPath func(path string)
	// CutOff gets the status of each review refused unread, because of its size or because too many reviews are running:
	// 408, 411, 413 or 503. Optional.
	CutOff func(status int)
	// Log gets a line per refused request at V(1), and failures. The zero value logs nothing.
	Log logr.Logger
}

// Endpoint is a [Kind] of any Go types.
type Endpoint interface {
	endpoint() endpoint
}

// endpoint is a kind's contribution.
type endpoint struct {
	kind     schema.GroupKind
	handlers map[string]admission.Handler
	convert  func(object []byte, apiVersion string) ([]byte, error)
}

// Handlers returns all handlers by path: admission of each given kind, [ConvertPath], [HealthzPath] and [RestPath]. The
// handlers understand versions v1 and v1beta1 of both review kinds, are safe for concurrent use, and share the limits
// on running reviews.
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

// Paths returns the paths of admission served by [Handlers] for the kinds, sorted. Webhook configurations with
// different paths would get no answer.
func Paths(kinds ...Endpoint) []string {
	var paths []string
	for _, kind := range kinds {
		paths = slices.AppendSeq(paths, maps.Keys(kind.endpoint().handlers))
	}
	slices.Sort(paths)
	return paths
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok")) // on an error the client is gone
}

// loggerOf avoids controller-runtime's base logger, a package variable.
func loggerOf(log logr.Logger) func(logr.Logger, *admission.Request) logr.Logger {
	log = log.WithName("admission")
	return func(_ logr.Logger, req *admission.Request) logr.Logger {
		return admission.DefaultLogConstructor(log, req)
	}
}
