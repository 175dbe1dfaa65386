// Package admission answers "what does the API server get back when it asks about an object of apps.kruise.io?": defaults as
// a patch, problems as a status, and the object in its other version.
//
// It is a thin layer. What is filled in, refused or converted is decided by the pure functions of examples/apis; this package
// decodes requests, calls them, and encodes answers. [Kind] describes one kind to it, and each kind has a file of its own that
// does nothing else; [Handlers] lists them.
//
// # Promises
//
// An answer never loses what it does not understand. Templates may hold fields of a Kubernetes newer than these Go types, so a
// patch is the difference that defaulting made between two typed objects, laid on the object as it was sent. Nothing of
// spec is ever removed.
//
// An object is refused for all its problems at once: 422, reason Invalid, and one cause per problem with the field's path in
// the version of the request. Bodies that make no sense get 400, or 422 with the path when a single field has the wrong
// type. What panics is answered with 500; so is what cannot be looked up.
//
// A feature that is off lets everything pass.
//
// # Cost
//
// Whoever may write objects decides what is asked about. What a review costs is bounded by its size, reviews wait for each other
// where they are many or large, and what no object needs is refused before it is decoded: more than 1 MiB, 100 levels, or
// numbers that take minutes to read. An answer names 50 problems.
//
// # What is stored may be anything
//
// An update of an object that cannot be decoded as it is stored is judged like a creation, so that it can be repaired. One that leaves
// its spec alone is admitted, with a warning: finalizers have to go.
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

// Paths that belong to no kind.
const (
	// ConvertPath serves conversion between the versions of every kind.
	ConvertPath = "/convert"
	// HealthzPath answers 200 as long as the server serves.
	HealthzPath = "/healthz"
	// RestPath stands for all other paths, which configurations of another manager name. Reviews of this project's own kinds get
	// the answer of their kind. Other reviews are allowed, with a warning.
	RestPath = "/"
)

// Options say how requests are judged. The zero value judges with the default gates and looks nothing up.
type Options struct {
	// Gates are the feature gates that differ from their defaults.
	Gates map[apps.Gate]bool
	// Reader finds the Pods that requests name, and what SidecarSets have to agree with. Nil leaves out checks that need it. A cache that lags behind refuses
	// Pods it has not seen yet; with a client that reads from the API server each such name costs a request.
	Reader client.Reader
	// Namespace is the manager's: Reader finds ConfigMap kruise-configuration and the ControllerRevisions of SidecarSets there. Empty leaves
	// out checks that need them.
	Namespace string
	// Client has the API server judge Pod templates that change, by creations of PodTemplates that are dry runs. Nil leaves that
	// out, and templates pass.
	Client client.Writer
	// TemplateUnchecked is told why the API server could not be asked about a template. The user gets a warning. Optional.
	TemplateUnchecked func(error)
	// Refused is told of each request that was refused to protect an object. Optional.
	Refused func(Refusal)
	// UnknownPath is told the path of each review at [RestPath]: at most 50 different ones, and [OtherPaths]. Optional.
	UnknownPath func(path string)
	// CutOff is told the status of each review that nobody looks at, because of its size or because too many are under way: 408, 411,
	// 413 or 503. Optional.
	CutOff func(status int)
	// Log gets one line per refused request at V(1), and failures. The zero value logs nothing.
	Log logr.Logger
}

// Endpoint is a [Kind], whatever its Go types.
type Endpoint interface {
	endpoint() endpoint
}

// endpoint is what a kind contributes.
type endpoint struct {
	kind     schema.GroupKind
	handlers map[string]admission.Handler
	convert  func(object []byte, apiVersion string) ([]byte, error)
}

// Handlers returns everything to be served, by path: admission of each of the given kinds, [ConvertPath], [HealthzPath] and [RestPath]. They
// understand versions v1 and v1beta1 of both kinds of review, and may be called concurrently. They share the limits of what is under way.
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

// Paths returns the paths of admission that [Handlers] serves for these kinds, sorted. Entries of webhook configurations
// with other paths would get no answer.
func Paths(kinds ...Endpoint) []string {
	var paths []string
	for _, kind := range kinds {
		paths = slices.AppendSeq(paths, maps.Keys(kind.endpoint().handlers))
	}
	slices.Sort(paths)
	return paths
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok")) // whoever asked is gone if this fails
}

// loggerOf keeps the base logger of controller-runtime, a package variable, out of it.
func loggerOf(log logr.Logger) func(logr.Logger, *admission.Request) logr.Logger {
	log = log.WithName("admission")
	return func(_ logr.Logger, req *admission.Request) logr.Logger {
		return admission.DefaultLogConstructor(log, req)
	}
}
