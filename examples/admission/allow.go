package admission

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Any client of the webhooks' port can choose paths, and each path in a metric stays in memory, so the number of
// paths is limited.
const (
	maxPaths      = 50
	maxPathLength = 100
	// OtherPaths is the value of the label path in the metrics for invalid paths, and for all new paths after the
	// first 50.
	OtherPaths = "other"
)

// rest handles every path that has no handler of its own. Webhook configurations of other managers name such paths.
// If the object's kind has handlers here, the handler for the verb in the path responds, because OpenKruise 1.9.0
// uses other paths. All other reviews are admitted with a warning: this project does not implement the features of
// such paths, and without a response the API server would refuse, for example, all Pods.
type rest struct {
	kinds   map[schema.GroupKind]map[string]admission.Handler // by kind and verb
	observe func(path string)                                 // optional
	known   *paths
}

// pathKey is the context key of a request's path.
type pathKey struct{}

func newRest(log logr.Logger, observe func(path string), kinds []Endpoint) http.Handler {
	r := &rest{kinds: map[schema.GroupKind]map[string]admission.Handler{}, observe: observe, known: &paths{seen: map[string]bool{}}}
	for _, kind := range kinds {
		e := kind.endpoint()
		verbs := map[string]admission.Handler{}
		for path, handler := range e.handlers {
			verbs[verbOf(path)] = handler
		}
		if isOwn(e.kind.Group) && len(verbs) > 0 {
			r.kinds[e.kind] = verbs
		}
	}
	return &admission.Webhook{
		Handler: r,
		WithContextFunc: func(ctx context.Context, r *http.Request) context.Context {
			return context.WithValue(ctx, pathKey{}, r.URL.Path)
		},
		LogConstructor: loggerOf(log),
	}
}

// isOwn reports whether an API group is a group of OpenKruise, whose kinds this project implements.
func isOwn(group string) bool { return strings.HasSuffix(group, ".kruise.io") }

// verbOf returns the part of a path before the first dash: mutate or validate.
func verbOf(path string) string {
	verb, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "-")
	return verb
}

// Handle implements admission.Handler.
func (r *rest) Handle(ctx context.Context, req admission.Request) admission.Response {
	path, _ := ctx.Value(pathKey{}).(string)
	if r.observe != nil {
		r.observe(r.known.label(path))
	}
	kind := schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}
	verbs, own := r.kinds[kind]
	handler, served := verbs[verbOf(path)]
	switch {
	case served:
		return handler.Handle(ctx, req)
	case own && verbOf(path) != mutates && verbOf(path) != validates:
		return admission.Denied("kruise-manager serves nothing at " + Shown(path) + ": correct the path in the webhook configuration")
	case own: // the kind has a single handler, for the other verb, which does all checks
		return admission.Allowed("")
	}
	return admission.Allowed("nothing here looks at this request").
		WithWarnings("kruise-manager serves nothing at " + Shown(path) + ": allowed without a look; another manager left that webhook behind")
}

// paths limits the number of distinct paths that are observed.
type paths struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (p *paths) label(path string) string {
	if Shown(path) != path {
		return OtherPaths
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seen[path] && len(p.seen) >= maxPaths {
		return OtherPaths
	}
	p.seen[path] = true
	return path
}

// Shown returns the printable characters of a path. A warning is an HTTP header, and must not contain misleading
// characters.
func Shown(path string) string {
	plain := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, path)
	return plain[:min(len(plain), maxPathLength)]
}
