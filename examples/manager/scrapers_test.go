package manager_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/testr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// reviewer acts as an API server for TokenReviews and SubjectAccessReviews: the tokens "reader" and "stranger" are
// valid, and only "reader" may get /metrics.
func reviewer(t *testing.T, asked *atomic.Int32) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var answer any
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			var review authenticationv1.TokenReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			known := review.Spec.Token == "reader" || review.Spec.Token == "stranger"
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: review.Spec.Token}}
			answer = review
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			var review authorizationv1.SubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			asks := *review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "reader" && asks == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
			answer = review
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func TestScrapers(t *testing.T) {
	for _, tc := range []struct {
		name                        string
		method, path, authorization string
		times                       int
		wantStatus                  int // of the last request
		wantAsked                   int32
	}{
		{"a reader is asked about once", http.MethodGet, "/metrics", "Bearer reader", 50, http.StatusOK, 2},
		{"another path", http.MethodGet, "/other", "Bearer reader", 1, http.StatusForbidden, 2},
		{"another verb", http.MethodPost, "/metrics", "Bearer reader", 1, http.StatusForbidden, 2},
		{"who may not", http.MethodGet, "/metrics", "Bearer stranger", 1, http.StatusForbidden, 2},
		{"a forged token", http.MethodGet, "/metrics", "Bearer forged", 1, http.StatusUnauthorized, 1},
		{"nobody", http.MethodGet, "/metrics", "", 50, http.StatusUnauthorized, 0},
		{"an empty token", http.MethodGet, "/metrics", "Bearer  ", 50, http.StatusUnauthorized, 0},
		{"a password", http.MethodGet, "/metrics", "Basic cmVhZGVyOnJlYWRlcg==", 50, http.StatusUnauthorized, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked atomic.Int32
			handler := scrapersHandler(t, reviewer(t, &asked))
			var answer *httptest.ResponseRecorder
			for range tc.times {
				request := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, http.NoBody)
				request.Header.Set("Authorization", tc.authorization)
				answer = httptest.NewRecorder()
				handler.ServeHTTP(answer, request)
			}
			if answer.Code != tc.wantStatus || asked.Load() != tc.wantAsked {
				t.Errorf("status %d with %d reviews, want %d with %d: %s", answer.Code, asked.Load(), tc.wantStatus, tc.wantAsked, answer.Body)
			}
		})
	}
}

// TestScrapersForgeTokens: a client with forged tokens causes only a limited number of requests to the API server,
// and does not keep allowed clients from reading metrics.
func TestScrapersForgeTokens(t *testing.T) {
	var asked atomic.Int32
	handler := scrapersHandler(t, reviewer(t, &asked))
	statuses := map[int]int{}
	send := func(from, token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		request.RemoteAddr = from
		request.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
	for i := range 1000 {
		statuses[send(fmt.Sprintf("192.0.2.7:%d", 1000+i), "forged")]++
	}
	if asked.Load() > 100 || statuses[http.StatusTooManyRequests] == 0 || statuses[http.StatusUnauthorized] == 0 {
		t.Errorf("1000 forged tokens: %d reviews, answers by status %v", asked.Load(), statuses)
	}
	if got := send("192.0.2.1:1000", "reader"); got != http.StatusOK {
		t.Errorf("who may is answered with %d meanwhile", got)
	}
}

func scrapersHandler(t *testing.T, config *rest.Config) http.Handler {
	t.Helper()
	filter, err := manager.ScrapersFilter(config, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(testr.New(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	if err != nil {
		t.Fatal(err)
	}
	return handler
}
