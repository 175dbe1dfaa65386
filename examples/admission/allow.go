package admission

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Strangers on the port choose paths, and observed paths stay in memory.
const (
	maxPaths      = 50
	maxPathLength = 100
	// OtherPaths is observed in place of the 51st and later paths, and of paths unfit as labels.
	OtherPaths = "other"
)

// allowOthers returns a handler for every remaining path: the handler allows every request and changes nothing.
// Configurations left behind by another manager name features not served here. Without an answer the API server would
// refuse Pods. The answer warns that nobody has looked.
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

// paths bounds the number of distinct paths.
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

// shown is the printable part of a path: a warning is a header, and must not mislead its reader.
func shown(path string) string {
	plain := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, path)
	return plain[:min(len(plain), maxPathLength)]
}
