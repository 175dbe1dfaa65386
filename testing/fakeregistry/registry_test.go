package fakeregistry_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/fakeregistry"
)

func start(t *testing.T) *fakeregistry.Registry {
	t.Helper()
	r, err := fakeregistry.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// app returns an image with one file.
func app(content string) fakeregistry.Image {
	return fakeregistry.Image{
		Files:      []fakeregistry.File{{Name: "tmp/", Mode: 0o777}, {Name: "app", Mode: 0o755, Content: []byte(content)}},
		Entrypoint: []string{"/app"}, Env: []string{"VERSION=v1"},
	}
}

// push pushes an image, and returns the digests of the image and of its layer.
func push(t *testing.T, r *fakeregistry.Registry, name, tag string, image fakeregistry.Image) (digest, layer string) {
	t.Helper()
	digest, err := r.Push(name, tag, image)
	if err != nil {
		t.Fatal(err)
	}
	found := get(t, r, name+"/manifests/"+digest, "")
	var manifest struct {
		Layers []struct{ Digest string }
	}
	if err := json.Unmarshal([]byte(found.body), &manifest); err != nil {
		t.Fatalf("%+v: %v", found, err)
	}
	return digest, manifest.Layers[0].Digest
}

type response struct {
	status int
	header http.Header
	body   string
	err    error // the error of reading the body
}

// get requests a path below /v2/, with the header Authorization unless authorization is empty.
func get(t *testing.T, r *fakeregistry.Registry, path, authorization string) response {
	t.Helper()
	return ask(t.Context(), t, r, http.MethodGet, "/v2/"+path, authorization, nil)
}

func ask(ctx context.Context, t *testing.T, r *fakeregistry.Registry, method, path, authorization string, form url.Values) response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+r.Host()+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return response{err: err}
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return response{answer.StatusCode, answer.Header, string(body), err}
}

func TestImages(t *testing.T) {
	r := start(t)
	digest, layer := push(t, r, "team/sub/app", "v1", app("one"))
	_, other := push(t, r, "other", "v1", app("two"))
	if err := r.Tag("team/sub/app", "v1", "again"); err != nil {
		t.Fatal(err)
	}
	if again, err := r.Digest("team/sub/app", "again"); again != digest || err != nil {
		t.Errorf("the second tag is of %s, %v", again, err)
	}
	if err := r.Tag("team/sub/app", "v2", "again"); err == nil {
		t.Error("an absent image was tagged")
	}
	if digest, err := r.Digest("team/sub/app", "v2"); err == nil {
		t.Errorf("an absent image has digest %s", digest)
	}
	for path, want := range map[string]int{
		"":                                       200,
		"team/sub/app/manifests/v1":              200,
		"team/sub/app/manifests/again":           200,
		"team/sub/app/manifests/" + digest:       200,
		"team/sub/app/manifests/v2":              404,
		"team/sub/app/blobs/" + layer:            200,
		"team/sub/app/blobs/" + other:            404, // a blob of another repository
		"other/manifests/" + digest:              404,
		"team/sub/app/blobs/sha256:0":            404,
		"team/sub/app/tags/list":                 404,
		"manifests/v1":                           404,
		"team/sub/app/manifests/":                404,
		"team/sub/app/manifests/v1/blobs/../v1/": 404,
	} {
		if found := get(t, r, path, ""); found.status != want {
			t.Errorf("%q: status %d, want %d", path, found.status, want)
		}
	}
	if found := ask(t.Context(), t, r, http.MethodPut, "/v2/team/sub/app/manifests/v1", "", nil); found.status != 404 {
		t.Errorf("a push over HTTP: status %d", found.status)
	}
	if found := get(t, r, "team/sub/app/blobs/"+layer, ""); !strings.Contains(found.body, "one") {
		t.Errorf("the layer has no file: %q", found.body)
	}
}

// These are the credentials in the table of TestAccess.
const (
	basic = "Basic Y2k6c2VjcmV0" // ci:secret
	wrong = "Basic Y2k6d3Jvbmc=" // ci:wrong
)

func TestAccess(t *testing.T) {
	users := map[string]string{"ci": "secret"}
	for _, test := range []struct {
		name, authorization string
		access              *fakeregistry.Access
		repository          string
		status              int
		challenge           string
		invalid             bool // the challenge says that the token is invalid
		who                 string
	}{
		{name: "open", repository: "team/app", status: 200},
		{name: "open, with a credential of another registry", authorization: wrong, repository: "team/app", status: 200, who: "unknown"},
		{name: "Basic without credential", access: &fakeregistry.Access{Users: users}, repository: "team/app", status: 401, challenge: "Basic"},
		{name: "Basic", access: &fakeregistry.Access{Users: users}, authorization: basic, repository: "team/app", status: 200, who: "user ci"},
		{name: "Basic with a wrong password", access: &fakeregistry.Access{Users: users}, authorization: wrong, repository: "team/app", status: 401, challenge: "Basic", who: "unknown"},
		{name: "Bearer without token", access: &fakeregistry.Access{Users: users, Bearer: true}, repository: "team/app", status: 401, challenge: "Bearer"},
		{name: "Bearer with a password", access: &fakeregistry.Access{Users: users, Bearer: true}, authorization: basic, repository: "team/app", status: 401, challenge: "Bearer", who: "user ci"},
		{name: "Bearer with a token never issued", access: &fakeregistry.Access{Users: users, Bearer: true}, authorization: "Bearer token-9", repository: "team/app", status: 401, challenge: "Bearer", invalid: true, who: "unknown"},
		{name: "a repository whose name only begins alike", access: &fakeregistry.Access{Users: users}, repository: "teamwork", status: 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t)
			push(t, r, test.repository, "v1", app("one"))
			if test.access != nil {
				r.Protect("team", *test.access)
			}
			found := get(t, r, test.repository+"/manifests/v1", test.authorization)
			challenge := found.header.Get("WWW-Authenticate")
			if found.status != test.status || !strings.HasPrefix(challenge, test.challenge) || strings.Contains(challenge, "invalid_token") != test.invalid {
				t.Errorf("%d %v", found.status, found.header)
			}
			all := r.Requests()
			want := fakeregistry.Request{Repository: test.repository, Object: "manifest", Reference: "v1", Credential: test.who, Status: test.status}
			if diff := cmp.Diff(want, all[len(all)-1]); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	scope := url.Values{"service": {"x"}, "scope": {"repository:team/app:pull"}}
	with := func(more map[string]string) url.Values {
		out := url.Values{"scope": scope["scope"]}
		for name, value := range more {
			out.Set(name, value)
		}
		return out
	}
	for _, test := range []struct {
		name, method, authorization string
		form                        url.Values
		status                      int
		who                         string
	}{
		{name: "password in the header", method: http.MethodGet, authorization: basic, status: 200, who: "user ci"},
		{name: "wrong password in the header", method: http.MethodGet, authorization: wrong, status: 401, who: "unknown"},
		{name: "no credential", method: http.MethodGet, status: 401},
		{
			name: "password in a form", method: http.MethodPost, status: 200, who: "user ci",
			form: with(map[string]string{"grant_type": "password", "username": "ci", "password": "secret"}),
		},
		{
			name: "identity token", method: http.MethodPost, status: 200, who: "identity token of robot",
			form: with(map[string]string{"grant_type": "refresh_token", "refresh_token": "identity"}),
		},
		{
			name: "wrong identity token", method: http.MethodPost, status: 401, who: "unknown",
			form: with(map[string]string{"grant_type": "refresh_token", "refresh_token": "other"}),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t)
			push(t, r, "team/app", "v1", app("one"))
			push(t, r, "team/other", "v1", app("one"))
			r.Protect("team", fakeregistry.Access{
				Users: map[string]string{"ci": "secret"}, IdentityTokens: map[string]string{"identity": "robot"}, Bearer: true,
			})
			found := ask(t.Context(), t, r, test.method, "/token?"+scope.Encode(), test.authorization, test.form)
			all := r.Requests()
			if last := all[len(all)-1]; found.status != test.status || last.Credential != test.who || last.Object != "token" {
				t.Errorf("%d, %+v", found.status, last)
			}
			if test.status != 200 {
				return
			}
			var issued struct{ Token string }
			if err := json.Unmarshal([]byte(found.body), &issued); err != nil {
				t.Fatal(err)
			}
			pulls := func(path string) int { return get(t, r, path, "Bearer "+issued.Token).status }
			if got := pulls("team/app/manifests/v1"); got != 200 {
				t.Errorf("with the token: %d", got)
			}
			if got := pulls("team/other/manifests/v1"); got != 401 {
				t.Errorf("in another repository: %d", got)
			}
			r.Revoke()
			if got := pulls("team/app/manifests/v1"); got != 401 {
				t.Errorf("with the revoked token: %d", got)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  fakeregistry.Fault
		object func(digest, layer string) string
		want   []int // status of each request; 0 means that the connection breaks during the response
	}{
		{
			name: "busy", fault: fakeregistry.Fault{Busy: 2, RetryAfter: 3 * time.Second},
			object: func(digest, _ string) string { return "manifests/" + digest }, want: []int{429, 429, 200},
		},
		{
			name: "cut", fault: fakeregistry.Fault{CutAfter: 100},
			object: func(_, layer string) string { return "blobs/" + layer }, want: []int{0, 0},
		},
		{
			name: "manifests are not cut", fault: fakeregistry.Fault{CutAfter: 1},
			object: func(digest, _ string) string { return "manifests/" + digest }, want: []int{200},
		},
		{
			name: "late", fault: fakeregistry.Fault{Delay: 10 * time.Millisecond},
			object: func(digest, _ string) string { return "manifests/" + digest }, want: []int{200},
		},
		{
			name: "slow", fault: fakeregistry.Fault{BytesPerSecond: 20_000},
			object: func(_, layer string) string { return "blobs/" + layer }, want: []int{200},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t)
			digest, layer := push(t, r, "app", "v1", app("one"))
			whole := get(t, r, "app/"+test.object(digest, layer), "")
			r.SetFault("app", test.fault)
			for i, want := range test.want {
				found := get(t, r, "app/"+test.object(digest, layer), "")
				switch {
				case want == 0 && found.err == nil:
					t.Errorf("request %d did not break off", i)
				case want == 200 && found.body != whole.body:
					t.Errorf("request %d: %d bytes of %d", i, len(found.body), len(whole.body))
				case want != 0 && found.status != want:
					t.Errorf("request %d: status %d", i, found.status)
				case want == 429 && found.header.Get("Retry-After") != "3":
					t.Errorf("request %d: %v", i, found.header)
				}
			}
		})
	}
}

// TestHang: a hanging request ends when the client gives up, and continues when the Fault is replaced.
func TestHang(t *testing.T) {
	r := start(t)
	_, layer := push(t, r, "app", "v1", app("one"))
	r.SetFault("app", fakeregistry.Fault{Hang: true})
	ended := make(chan response)
	go func() { ended <- get(t, r, "app/blobs/"+layer, "") }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if found := ask(ctx, t, r, http.MethodGet, "/v2/app/blobs/"+layer, "", nil); found.err == nil {
		t.Errorf("the request did not hang: %d", found.status)
	}
	select {
	case found := <-ended:
		t.Fatalf("the request did not hang: %+v", found)
	default:
	}
	r.SetFault("app", fakeregistry.Fault{})
	if found := <-ended; found.status != 200 {
		t.Errorf("after the Fault: %+v", found)
	}
}
