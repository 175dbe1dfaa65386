package manager_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/manager"
)

// TestIsInstalled: an API server that is starting may serve its list of groups before it knows all CRDs. So only the
// discovery document of the kind's own group proves that a kind is missing.
func TestIsInstalled(t *testing.T) {
	const (
		aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		apps       = `{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Current","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","verbs":["get"]}]}]}`
		budgets    = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"policy.kruise.io/v1beta1","resources":[{"name":"podunavailablebudgets","kind":"PodUnavailableBudget","namespaced":true,"verbs":["get"]}]}`
	)
	for _, c := range []struct {
		name, body      string
		code            int
		installed, fail bool
	}{
		{name: "known to the group", code: http.StatusOK, body: budgets, installed: true},
		{name: "known to nobody", code: http.StatusNotFound, body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`},
		{name: "not known yet", code: http.StatusServiceUnavailable, body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`, fail: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, kind := c.body, "application/json"
				switch r.URL.Path {
				case "/api":
					body, kind = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`, aggregated
				case "/apis":
					body, kind = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[`+apps+`]}`, aggregated
				}
				w.Header().Set("Content-Type", kind)
				if kind != aggregated {
					w.WriteHeader(c.code)
				}
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			mapper, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: server.URL}, server.Client())
			if err != nil {
				t.Fatal(err)
			}
			installed, err := manager.IsInstalled(mapper, v1beta1.GroupVersion.WithKind("PodUnavailableBudget"))
			if installed != c.installed || (err != nil) != c.fail {
				t.Errorf("installed: %v, %v; want %v, an error: %v", installed, err, c.installed, c.fail)
			}
		})
	}
}
