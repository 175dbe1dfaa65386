package workloads_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workloadkit/workloadkit/examples/workloads"
)

// manager is a manager whose RESTMapper still knows the kind Set after the kind's CRD was deleted.
type manager struct {
	url    string
	logged *atomic.Int32
}

func (m manager) GetConfig() *rest.Config   { return &rest.Config{Host: m.url} }
func (manager) GetHTTPClient() *http.Client { return http.DefaultClient }
func (manager) GetScheme() *runtime.Scheme  { return runtime.NewScheme() }
func (manager) GetRESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "game.io", Version: "v1", Kind: "Set"}, meta.RESTScopeNamespace)
	return mapper
}

func (m manager) GetLogger() logr.Logger {
	return funcr.New(func(_, text string) {
		if strings.Contains(text, "not installed") {
			m.logged.Add(1)
		}
	}, funcr.Options{})
}

// TestKindThatIsGone: after the deletion of a kind's CRD, requests check at growing intervals whether the kind is
// installed again, and a single line is logged. The same holds while discovery still contains the kind, but list
// requests fail.
func TestKindThatIsGone(t *testing.T) {
	for _, tc := range []struct {
		name, list string
	}{
		{"no such group", ""},
		{"listed as a kind, and not served", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"game.io/v1","resources":[{"name":"sets","kind":"Set","namespaced":true,"verbs":["list"]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests, logged atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == "/apis/game.io/v1" {
					requests.Add(1)
					if tc.list != "" {
						_, _ = w.Write([]byte(tc.list))
						return
					}
				}
				w.WriteHeader(http.StatusNotFound)
			}))
			defer server.Close()
			list := workloads.ListOf(parse, func() bool { return true })
			list.Read(listing("Set.v1.game.io"))
			watches := workloads.Watch(manager{server.URL, &logged}, list, "", nil)
			clock := clocktesting.NewFakeClock(time.Now())
			watches.At(clock)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- watches.Start(ctx) }()
			for range 60 * 10 { // ten minutes, a second at a time
				untilWaits(t, clock)
				clock.Step(time.Second)
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := requests.Load(); n < 5 || n > 20 {
				t.Errorf("the API server was asked %d times in ten minutes", n)
			}
			if n := logged.Load(); n != 1 {
				t.Errorf("it was said %d times", n)
			}
		})
	}
}

func untilWaits(t *testing.T, clock *clocktesting.FakeClock) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !clock.HasWaiters(); {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for the clock")
		}
	}
}
