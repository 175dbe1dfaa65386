package prober_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/node/probing/prober"
)

// runtime is a function that implements prober.Runtime.
type runtime func(ctx context.Context, id string, command []string, limit time.Duration) (prober.Output, error)

func (r runtime) RunOutput(ctx context.Context, id string, command []string, limit time.Duration) (prober.Output, error) {
	return r(ctx, id, command, limit)
}

func pass(message string) probing.Result {
	return probing.Result{Verdict: probing.Pass, Message: message}
}

func fail(message string) probing.Result {
	return probing.Result{Verdict: probing.Fail, Message: message}
}

func undecided(message string) probing.Result {
	return probing.Result{Verdict: probing.Undecided, Message: message}
}

func TestExec(t *testing.T) {
	out := func(code int32, stdout, stderr string) prober.Output {
		return prober.Output{ExitCode: code, Stdout: []byte(stdout), Stderr: []byte(stderr)}
	}
	for _, c := range []struct {
		name   string
		output prober.Output
		err    error
		want   probing.Result
	}{
		{"ND-32 stdout after a success", out(0, " fine\n", "debug"), nil, pass("fine")},
		{"ND-32 stderr after a failure", out(2, "text", "broken"), nil, fail("broken")},
		{"no stderr", out(2, "broken", ""), nil, fail("broken")},
		{"no output", out(2, "", "\n"), nil, fail("exit code 2")},
		{"ND-32 an error decides nothing", out(0, "", ""), errors.New("no such container"), undecided("no such container")},
		{"a timeout is a failure", out(0, "", ""), fmt.Errorf("exec: %w", context.DeadlineExceeded), fail("no answer before the timeout")},
		{"a timeout of the runtime is a failure", out(0, "", ""), status.Error(codes.DeadlineExceeded, "command timed out"), fail("no answer before the timeout")},
		{"the output is bounded", out(0, strings.Repeat("x", 1<<20), ""), nil, pass(strings.Repeat("x", 10<<10))},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := prober.New(runtime(func(_ context.Context, id string, command []string, limit time.Duration) (prober.Output, error) {
				if asked := fmt.Sprint(id, command, limit); asked != "a[check] 3s" {
					t.Errorf("asked %s", asked)
				}
				return c.output, c.err
			}), "")
			got := p.Probe(t.Context(), "a", &probing.Check{Exec: []string{"check"}, Timeout: 3 * time.Second})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
}

// TestTimeout: Probe returns in time even if the runtime ignores the limit. If the agent's context ends during a
// check, the verdict is Undecided.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := prober.New(runtime(func(ctx context.Context, _ string, _ []string, _ time.Duration) (prober.Output, error) {
			<-ctx.Done()
			return prober.Output{}, ctx.Err()
		}), "")
		begin := time.Now()
		if got := p.Probe(t.Context(), "a", &probing.Check{Exec: []string{"check"}}); got != fail("no answer before the timeout") {
			t.Errorf("got %+v", got)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("ND-32 took %v", took)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if got := p.Probe(ended, "a", &probing.Check{Exec: []string{"check"}}); got.Verdict != probing.Undecided {
			t.Errorf("got %+v", got)
		}
	})
	if got := prober.New(nil, "").Probe(t.Context(), "a", &probing.Check{Exec: []string{"check"}}); got.Verdict != probing.Undecided {
		t.Errorf("without runtime: %+v", got)
	}
	if got := prober.New(nil, "").Probe(t.Context(), "a", &probing.Check{}); got.Verdict != probing.Undecided {
		t.Errorf("an empty check: %+v", got)
	}
}

func addressOf(t *testing.T, server *httptest.Server) netip.AddrPort {
	t.Helper()
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

func header(name, value string) corev1.HTTPHeader { return corev1.HTTPHeader{Name: name, Value: value} }

func TestHTTP(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	handler := http.NewServeMux()
	handler.HandleFunc("/fine", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	handler.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a secret", http.StatusInternalServerError)
	})
	handler.HandleFunc("/local", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/broken", http.StatusFound) })
	handler.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	handler.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 1<<20)) })
	handler.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, " ", r.Header["User-Agent"], " ", r.Header["Accept"], " ", r.Header["X"], " ", r.URL.RawQuery)
	})
	handler.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	at := addressOf(t, plain)
	p := prober.New(nil, "kube-probe/test")
	for _, c := range []struct {
		name string
		get  probing.HTTPGet
		want probing.Result
	}{
		{"ND-32 success, without the proxy of the environment", probing.HTTPGet{Path: "/fine"}, pass("fine")},
		{"ND-32 failure, without the body", probing.HTTPGet{Path: "/broken"}, fail("HTTP status 500")},
		{"ND-32 no such page", probing.HTTPGet{Path: "/none"}, fail("HTTP status 404")},
		{"https, whatever the certificate", probing.HTTPGet{Scheme: "https", Address: addressOf(t, secure), Path: "/fine"}, pass("fine")},
		{"no local redirect", probing.HTTPGet{Path: "/local"}, pass("HTTP status 302: the redirect is not followed")},
		{"ND-71 no redirect to another host", probing.HTTPGet{Path: "/away"}, pass("HTTP status 302: the redirect is not followed")},
		{"a large body", probing.HTTPGet{Path: "/large"}, pass(strings.Repeat("x", 10<<10))},
		{"ND-32 default headers", probing.HTTPGet{Path: "/headers?a=b"}, pass(at.String() + " [kube-probe/test] [*/*] [] a=b")},
		{
			"headers of the probe",
			probing.HTTPGet{Path: "/headers", Headers: []corev1.HTTPHeader{
				header("host", "db"), header("User-Agent", "me"), header("Accept", ""), header("x", "1"), header("X", "2"),
			}},
			pass("db [me] [] [1 2] "),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.get.Scheme == "" {
				c.get.Scheme, c.get.Address = "http", at
			}
			got := p.Probe(t.Context(), "", &probing.Check{HTTP: &c.get, Timeout: 10 * time.Second})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
	for _, path := range []string{other.URL + "/x", "/" + other.URL, "//" + strings.TrimPrefix(other.URL, "http://"), "@" + strings.TrimPrefix(other.URL, "http://")} {
		p.Probe(t.Context(), "", &probing.Check{HTTP: &probing.HTTPGet{Scheme: "http", Address: at, Path: path}})
	}
	if elsewhere.Load() > 0 {
		t.Error("ND-71 another host was asked")
	}
	slow := probing.Check{HTTP: &probing.HTTPGet{Scheme: "http", Address: at, Path: "/slow"}, Timeout: time.Second}
	if got := p.Probe(t.Context(), "", &slow); got != fail("no answer before the timeout") {
		t.Errorf("a slow server: %+v", got)
	}
}

// closed returns the address of a port on which no server listens.
func closed(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddrPort(listener.Addr().String())
}

func TestTCP(t *testing.T) {
	server := httptest.NewServer(nil)
	defer server.Close()
	p, refuses := prober.New(nil, ""), closed(t)
	if got := p.Probe(t.Context(), "", &probing.Check{TCP: addressOf(t, server)}); got != pass("") {
		t.Errorf("got %+v", got)
	}
	want := fail("dial tcp " + refuses.String() + ": connect: connection refused")
	if got := p.Probe(t.Context(), "", &probing.Check{TCP: refuses}); got != want {
		t.Errorf("got %+v", got)
	}
	if got := p.Probe(t.Context(), "", &probing.Check{HTTP: &probing.HTTPGet{Scheme: "http", Address: refuses, Path: "/"}}); got.Verdict != probing.Fail {
		t.Errorf("http: got %+v", got)
	}
}

func serve(t *testing.T, register func(*grpc.Server)) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return netip.MustParseAddrPort(listener.Addr().String())
}

// silent is a health server that never responds.
type silent struct {
	healthv1.UnimplementedHealthServer
}

func (silent) Check(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestGRPC(t *testing.T) {
	state := health.NewServer()
	state.SetServingStatus("sick", healthv1.HealthCheckResponse_NOT_SERVING)
	at := serve(t, func(s *grpc.Server) { healthv1.RegisterHealthServer(s, state) })
	none := serve(t, func(*grpc.Server) {})
	slow := serve(t, func(s *grpc.Server) { healthv1.RegisterHealthServer(s, silent{}) })
	for _, c := range []struct {
		name  string
		check probing.Check
		want  probing.Result
	}{
		{"the server", probing.Check{GRPC: at}, pass("service healthy")},
		{"a service that is sick", probing.Check{GRPC: at, Service: "sick"}, fail("service unhealthy: NOT_SERVING")},
		{"an unknown service", probing.Check{GRPC: at, Service: "none"}, fail("NotFound: unknown service")},
		{"no health service", probing.Check{GRPC: none}, fail("the server has no health service of gRPC (grpc.health.v1.Health)")},
		{"no answer", probing.Check{GRPC: slow}, fail("no answer before the timeout")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := prober.New(nil, "").Probe(t.Context(), "", &probing.Check{GRPC: c.check.GRPC, Service: c.check.Service, Timeout: time.Second})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
	refused := prober.New(nil, "").Probe(t.Context(), "", &probing.Check{GRPC: closed(t)})
	if refused.Verdict != probing.Fail || !strings.Contains(refused.Message, "connection refused") {
		t.Errorf("refused: %+v", refused)
	}
}

// Example asks a server for its health. Package probing makes the Check from a probe and the Pod's address.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "all well") }))
	defer server.Close()
	check := probing.Check{
		HTTP:    &probing.HTTPGet{Scheme: "http", Address: netip.MustParseAddrPort(server.Listener.Addr().String()), Path: "/healthz"},
		Timeout: 5 * time.Second,
	}
	result := prober.New(nil, "my-agent/1.0").Probe(context.Background(), "", &check)
	fmt.Println(result.Verdict, result.Message)
	// Output: Pass all well
}
