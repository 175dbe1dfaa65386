package admission

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Whoever reaches the port chooses the path, and what is observed is kept.
const (
	maxPaths      = 50
	maxPathLength = 100
	// OtherPaths is what is observed once there are many paths, and for paths that make no label.
	OtherPaths = "other"
)

// allowOthers returns a handler for every other path: it allows what it is asked about and changes nothing. Configurations that another
// manager left behind name features that are not served here; without an answer the API server would refuse Pods. The answer warns
// that nobody has looked.
func allowOthers(log logr.Logger, observe func(path string)) http.Handler {
	type key struct{}
	known := &paths{seen: map[string]bool{}}
	return &admission.Webhook{
		Handler: admission.HandlerFunc(func(ctx context.Context, _ admission.Request) admission.Response {
			path, _ := ctx.Value(key{}).(string)
			if observe != nil {
				observe(known.label(path))
			}
			return admission.Allowed("nothing here looks at this request").
				WithWarnings("kruise-manager serves nothing at " + shown(path) + ": allowed without a look; another manager left that webhook behind")
		}),
		WithContextFunc: func(ctx context.Context, r *http.Request) context.Context {
			return context.WithValue(ctx, key{}, r.URL.Path)
		},
		LogConstructor: loggerOf(log),
	}
}

// paths bounds how many are told apart.
type paths struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (p *paths) label(path string) string {
	if shown(path) != path {
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

// shown is the path, or what can be shown of it: a warning is a header, and whoever reads one is not to be misled.
func shown(path string) string {
	plain := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, path)
	return plain[:min(len(plain), maxPathLength)]
}
