package fakeregistry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	tokenPath = "/token" //nolint:gosec // a path of the server, and no secret
	// tokenLife is the default time in which a token is valid.
	tokenLife = 5 * time.Minute
)

// Access defines which users may pull, and how clients prove their identity.
type Access struct {
	// Users are the passwords by user name.
	Users map[string]string
	// IdentityTokens are the names of users by identity token. A client exchanges an identity token for an access
	// token.
	IdentityTokens map[string]string
	// Bearer means that clients must get access tokens from the registry's token endpoint. Otherwise clients send
	// name and password with each request.
	Bearer bool
	// TokenLife is the time in which a token is valid; 0 means 5 minutes.
	TokenLife time.Duration
}

// token is a token that the Registry has issued.
type token struct {
	user, repository string
	ends             time.Time
}

// Protect restricts pulls from a repository, and from all repositories whose names begin with the repository's name
// and "/". An empty name restricts all repositories. The longest matching name applies. Without Protect, pulls need
// no credential.
func (r *Registry) Protect(repository string, access Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.access[repository] = access
}

// Revoke makes all tokens issued so far invalid.
func (r *Registry) Revoke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.tokens)
}

// accessTo returns the access to a repository. The caller must hold the lock.
func (r *Registry) accessTo(repository string) (access Access, restricted bool) {
	longest := -1
	for name, a := range r.access {
		matches := name == "" || name == repository || strings.HasPrefix(repository, name+"/")
		if matches && len(name) > longest {
			longest, access, restricted = len(name), a, true
		}
	}
	return access, restricted
}

// whoAsks returns a description of the request's credential (for Request.Credential), and whether the request is
// allowed.
func (r *Registry) whoAsks(request *http.Request, repository string) (who string, allowed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	access, restricted := r.accessTo(repository)
	header := request.Header.Get("Authorization")
	if header == "" {
		return "", !restricted || repository == "" && len(access.Users)+len(access.IdentityTokens) == 0
	}
	if name, password, ok := request.BasicAuth(); ok && access.knows(name, password) {
		return "user " + name, !access.Bearer
	}
	secret, isBearer := strings.CutPrefix(header, "Bearer ")
	t, known := r.tokens[secret]
	switch {
	case !isBearer || !known:
		return "unknown", !restricted
	case !t.ends.After(r.clock.Now()), t.repository != repository && repository != "":
		return "token of " + t.user, !restricted
	}
	return "token of " + t.user, true
}

func (a *Access) knows(name, password string) bool {
	known, found := a.Users[name]
	return found && known == password
}

// challenge returns the header WWW-Authenticate, which says how to get access to a repository. For an invalid token,
// the header contains error="invalid_token" (RFC 6750), because clients would otherwise keep the token.
func (r *Registry) challenge(request *http.Request, repository string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if access, _ := r.accessTo(repository); !access.Bearer {
		return `Basic realm="fakeregistry"`
	}
	out := fmt.Sprintf(`Bearer realm="http://%s%s",service=%q,scope="repository:%s:pull"`, r.host, tokenPath, r.host, repository)
	if strings.HasPrefix(request.Header.Get("Authorization"), "Bearer ") {
		out += `,error="invalid_token"`
	}
	return out
}

// serveToken issues a token: to a user with a password in the header, as in the token protocol of Docker, or with a
// password or an identity token in a form, as in OAuth 2.
func (r *Registry) serveToken(w http.ResponseWriter, request *http.Request) {
	if err := request.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "UNSUPPORTED")
		return
	}
	repository := strings.TrimSuffix(strings.TrimPrefix(request.Form.Get("scope"), "repository:"), ":pull")
	asked := Request{Repository: repository, Object: "token", Status: http.StatusUnauthorized}
	r.mu.Lock()
	access, _ := r.accessTo(repository)
	user, credential := access.userOf(request)
	if asked.Credential = credential; user == "" {
		r.requests = append(r.requests, asked)
		r.mu.Unlock()
		refuse(w, asked.Status, "UNAUTHORIZED")
		return
	}
	life := access.TokenLife
	if life <= 0 {
		life = tokenLife
	}
	r.issued++
	secret := fmt.Sprintf("token-%d", r.issued)
	r.tokens[secret] = token{user: user, repository: repository, ends: r.clock.Now().Add(life)}
	asked.Status = http.StatusOK
	r.requests = append(r.requests, asked)
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": secret, "access_token": secret, "expires_in": int(life / time.Second)})
}

// userOf returns the user to whom a request for a token belongs, or "" if there is none, and a description of the
// credential.
func (a *Access) userOf(request *http.Request) (user, credential string) {
	name, password, isBasic := request.BasicAuth()
	if request.Form.Get("grant_type") == "password" {
		name, password, isBasic = request.Form.Get("username"), request.Form.Get("password"), true
	}
	if request.Form.Get("grant_type") == "refresh_token" {
		if owner, known := a.IdentityTokens[request.Form.Get("refresh_token")]; known {
			return owner, "identity token of " + owner
		}
		return "", "unknown"
	}
	switch {
	case isBasic && a.knows(name, password):
		return name, "user " + name
	case isBasic:
		return "", "unknown"
	}
	return "", ""
}
