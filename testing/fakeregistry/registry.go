package fakeregistry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Registry is a registry in the test's process. A Registry is safe for concurrent use. Make a Registry with New, and
// end it with Close.
type Registry struct {
	host   string
	server *http.Server
	clock  clock.PassiveClock

	mu       sync.Mutex
	blobs    map[string]blob   // layers, configurations and manifests, by digest
	tags     map[string]string // digests of manifests, by "NAME:TAG"
	access   map[string]Access // by the prefix of a repository name
	faults   map[string]*fault // by name
	tokens   map[string]token
	issued   int
	requests []Request
}

// New returns a Registry that listens on a free port of the loopback address. The context limits only the start.
func New(ctx context.Context) (*Registry, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the registry: %w", err)
	}
	r := &Registry{
		host: listener.Addr().String(), clock: clock.RealClock{}, blobs: map[string]blob{}, tags: map[string]string{},
		access: map[string]Access{}, faults: map[string]*fault{}, tokens: map[string]token{},
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }() // Serve ends at Close
	return r, nil
}

// Host returns the registry's host with port, which is the first part of the images' names.
func (r *Registry) Host() string { return r.host }

// Close ends all requests, including requests that a Fault delays.
func (r *Registry) Close() { _ = r.server.Close() }

// Request is a request that the Registry has received.
type Request struct {
	// Repository is the name of the repository, and Object is "manifest", "blob" or "token". Both are empty for a
	// request for /v2/, with which a client checks that the registry exists.
	Repository, Object string
	// Reference is the tag or digest of a manifest, or the digest of a blob.
	Reference string
	// Credential describes the credential without its secret value: "user NAME", "token of NAME", "identity token of
	// NAME", "unknown" for an invalid credential, or "" for a request without a credential.
	Credential string
	// Status is the HTTP status.
	Status int
}

// Requests returns all requests since New, the earliest first.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request(nil), r.requests...)
}

// ServeHTTP implements http.Handler, for tests that serve the Registry themselves.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path == tokenPath {
		r.serveToken(w, request)
		return
	}
	asked, found := parsePath(request.URL.Path)
	if !found || request.Method != http.MethodGet && request.Method != http.MethodHead {
		http.NotFound(w, request)
		return
	}
	who, allowed := r.whoAsks(request, asked.Repository)
	asked.Credential = who
	found = asked.Object == ""
	var content blob
	if !found {
		content, found = r.find(asked)
	}
	slow := r.faultOf(asked)
	switch {
	case slow.isBusy:
		asked.Status = http.StatusTooManyRequests
	case !allowed:
		asked.Status = http.StatusUnauthorized
	case !found:
		asked.Status = http.StatusNotFound
	default:
		asked.Status = http.StatusOK
	}
	r.note(asked)
	switch asked.Status {
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", fmt.Sprint(int(slow.RetryAfter/time.Second)))
		refuse(w, asked.Status, "TOOMANYREQUESTS")
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", r.challenge(request, asked.Repository))
		refuse(w, asked.Status, "UNAUTHORIZED")
	case http.StatusNotFound:
		refuse(w, asked.Status, "NAME_UNKNOWN")
	default:
		slow.serve(w, request, content)
	}
}

func (r *Registry) note(asked Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, asked)
}

// refuse sends an error response in the form of the distribution specification.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, strings.ToLower(http.StatusText(status)))
}

// parsePath reads the path of a request: /v2/NAME/manifests/REFERENCE or /v2/NAME/blobs/DIGEST, where the name may have
// several parts, or /v2/.
func parsePath(path string) (asked Request, found bool) {
	rest, found := strings.CutPrefix(path, "/v2/")
	if !found || rest == "" {
		return asked, found
	}
	for separator, object := range map[string]string{"/manifests/": "manifest", "/blobs/": "blob"} {
		if i := strings.LastIndex(rest, separator); i > 0 {
			asked.Repository, asked.Object, asked.Reference = rest[:i], object, rest[i+len(separator):]
			return asked, asked.Reference != "" && !strings.Contains(asked.Reference, "/")
		}
	}
	return asked, false
}

func (r *Registry) find(asked Request) (blob, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := asked.Reference
	if asked.Object == "manifest" && !strings.HasPrefix(digest, "sha256:") {
		digest = r.tags[asked.Repository+":"+digest]
	}
	found, ok := r.blobs[digest]
	return found, ok && found.repositories[asked.Repository]
}
