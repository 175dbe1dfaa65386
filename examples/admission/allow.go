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

// Strangers on the port choose paths, and observed paths stay in memory.
const (
	maxPaths      = 50
	maxPathLength = 100
	// OtherPaths is observed in place of the 51st and later paths, and of paths unfit as labels.
	OtherPaths = "other"
)

// rest answers at every path without a handler. Configurations of other managers name such paths. Reviews of objects
// whose kind has handlers here go to the handler of the verb in the path: OpenKruise 1.9.0 calls its paths differently.
// All remaining reviews are allowed with a warning, because the features behind such paths have no handler here, and
// the API server would refuse Pods without an answer.
type rest struct {
	kinds   map[schema.GroupKind]map[string]admission.Handler // by verb
	observe func(path string)                                 // optional
	known   *paths
}

// pathKey is the key of a request's path in its context.
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

// isOwn reports whether a group belongs to this project or OpenKruise alone.
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
	case own: // the handler of the kind's other verb has looked, or is going to
		return admission.Allowed("")
	}
	return admission.Allowed("nothing here looks at this request").
		WithWarnings("kruise-manager serves nothing at " + Shown(path) + ": allowed without a look; another manager left that webhook behind")
}

// paths bounds the number of distinct paths.
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

// Shown returns the printable part of a path. A warning is a header, and must not mislead its reader.
func Shown(path string) string {
	plain := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, path)
	return plain[:min(len(plain), maxPathLength)]
}
