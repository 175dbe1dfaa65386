package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someMetrics = `# TYPE controller_runtime_reconcile_time_seconds histogram
controller_runtime_reconcile_time_seconds_bucket{controller="cloneset",le="0.005"} 3
controller_runtime_reconcile_time_seconds_sum{controller="cloneset"} 0.25
controller_runtime_reconcile_time_seconds_count{controller="cloneset"} 4
controller_runtime_reconcile_time_seconds_sum{controller="cloneset-pods"} 1e-2
controller_runtime_reconcile_time_seconds_count{controller="cloneset-pods"} 1
controller_runtime_reconcile_total{controller="cloneset",result="success"} 4
`

func TestReconcilesAreRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(someMetrics))
	}))
	defer server.Close()
	got, err := scrape(t.Context(), server.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reconciles{count: 5, seconds: 0.26}, got, cmp.AllowUnexported(reconciles{})); diff != "" {
		t.Errorf("reconciles (-want +got):\n%s", diff)
	}
	if ms := got.milliseconds(reconciles{count: 3, seconds: 0.06}); ms < 99.99 || ms > 100.01 {
		t.Errorf("%g ms for a reconcile, want 100", ms)
	}
	if ms := got.milliseconds(got); ms != 0 {
		t.Errorf("%g ms without a reconcile", ms)
	}
	for _, url := range []string{server.URL + "/other", "http://127.0.0.1:1/metrics", ":"} {
		if _, err := scrape(t.Context(), url); err == nil || !strings.Contains(err.Error(), "metrics of the manager") {
			t.Errorf("%s: error %v", url, err)
		}
	}
	if none, err := scrape(t.Context(), ""); err != nil || none != (reconciles{}) {
		t.Errorf("without a URL: %+v, %v", none, err)
	}
}
