package fakeregistry

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestTokenEnds: a token expires, even between the requests for the manifest and for the layer.
func TestTokenEnds(t *testing.T) {
	r, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r.clock = clock
	if _, err := r.Push("app", "v1", Image{}); err != nil {
		t.Fatal(err)
	}
	r.Protect("", Access{Users: map[string]string{"ci": "secret"}, Bearer: true, TokenLife: time.Minute})
	ask := func(path string, header func(*http.Request)) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		header(request)
		recorder := httptest.NewRecorder()
		r.ServeHTTP(recorder, request)
		return recorder.Code
	}
	if got := ask("/token?scope=repository:app:pull", func(q *http.Request) { q.SetBasicAuth("ci", "secret") }); got != 200 {
		t.Fatalf("no token: %d", got)
	}
	bearer := func(q *http.Request) { q.Header.Set("Authorization", "Bearer token-1") }
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 200}, {59 * time.Second, 200}, {time.Second, 401}} {
		clock.SetTime(clock.Now().Add(step.after))
		if got := ask("/v2/app/manifests/v1", bearer); got != step.want {
			t.Errorf("%s later: %d, want %d", step.after, got, step.want)
		}
	}
}
