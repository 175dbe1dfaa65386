package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// TestBadUsage: with an invalid value, the command ends with exit code 2 before any connection is made. The error
// names the value.
func TestBadUsage(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		want []string
	}{
		{"unknown flag", []string{"--no-such-flag"}, nil, []string{"--no-such-flag"}},
		{"value of another type", []string{"--cloneset-workers=many"}, nil, []string{"many", "--cloneset-workers"}},
		{"argument", []string{"run"}, nil, []string{`"run"`}},
		{"unknown gate", []string{"--feature-gates=NoSuchGate=true"}, nil, []string{"NoSuchGate"}},
		{"gate of what is not built", []string{"--feature-gates=CloneSetEventHandlerOptimization=true"}, nil, []string{"CloneSetEventHandlerOptimization"}},
		{"lock of old", []string{"--leader-election-resource-lock=configmaps"}, nil, []string{"--leader-election-resource-lock", "configmaps", "leases"}},
		{"sync period without a unit", []string{"--sync-period=10"}, nil, []string{"--sync-period", `"10"`}},
		{"negative sync period", []string{"--sync-period=-1s"}, nil, []string{"--sync-period", "-1s"}},
		{"no overlap", []string{"--webhook-cert-overlap=0"}, nil, []string{"--webhook-cert-overlap"}},
		{"port out of range", []string{"--webhook-listen-port=70000"}, nil, []string{"--webhook-listen-port", "70000"}},
		{"port of the environment", nil, map[string]string{"WEBHOOK_PORT": "x"}, []string{"WEBHOOK_PORT", `"x"`}},
		{"unknown log format", []string{"--logging-format=xml"}, nil, []string{"xml"}},
		{"no name of the Lease", []string{"--leader-election-id="}, nil, []string{"--leader-election-id", `""`}},
		{"name of the Lease in capitals", []string{"--leader-election-id=Kruise"}, nil, []string{"--leader-election-id", `"Kruise"`}},
		{"no namespace of the Lease", []string{"--leader-election-namespace="}, nil, []string{"--leader-election-namespace", `""`}},
		{"namespace that cannot be", []string{"--namespace=Bad_NS"}, nil, []string{"--namespace", `"Bad_NS"`}},
		{"negative wait for caches", []string{"--controller-cache-sync-timeout=-1s"}, nil, []string{"--controller-cache-sync-timeout", "-1s"}},
		{"no wait for caches", []string{"--controller-cache-sync-timeout=0"}, nil, []string{"--controller-cache-sync-timeout", "0s"}},
		{"negative timeout of expectations", []string{"--expectation-timeout=-5m"}, nil, []string{"--expectation-timeout", "-5m0s"}},
		{"negative wait for webhooks", []string{"--webhook-initialize-timeout=-1m"}, nil, []string{"--webhook-initialize-timeout", "-1m0s"}},
		{"negative overlap", []string{"--webhook-cert-overlap=-1m"}, nil, []string{"--webhook-cert-overlap", "-1m0s"}},
		{"negative requests", []string{"--rest-config-qps=-1"}, nil, []string{"--rest-config-qps", "-1"}},
		{"requests that are no number", []string{"--rest-config-qps=NaN"}, nil, []string{"--rest-config-qps", "NaN"}},
		{"requests without end", []string{"--rest-config-qps=+Inf"}, nil, []string{"--rest-config-qps", "+Inf"}},
		{"negative burst", []string{"--rest-config-burst=-1"}, nil, []string{"--rest-config-burst", "-1"}},
		{"negative delay", []string{"--rate-limiter-base-delay=-1ms"}, nil, []string{"--rate-limiter-base-delay", "-1ms"}},
		{"no longest delay", []string{"--rate-limiter-max-delay=0"}, nil, []string{"--rate-limiter-max-delay", "0s"}},
		{"delays the wrong way round", []string{"--rate-limiter-base-delay=2s", "--rate-limiter-max-delay=1s"}, nil, []string{"--rate-limiter-max-delay", "1s", "2s"}},
		{"no rate of failing objects", []string{"--rate-limiter-qps=0"}, nil, []string{"--rate-limiter-qps", "0"}},
		{"no bucket", []string{"--rate-limiter-bucket-size=0"}, nil, []string{"--rate-limiter-bucket-size", "0"}},
		{"no workers", []string{"--cloneset-workers=0"}, nil, []string{"--cloneset-workers", "0"}},
		{"no workers of another kind", []string{"--statefulset-workers=0"}, nil, []string{"--statefulset-workers", "0"}},
		{"lease as short as renewing", []string{"--leader-election-lease-duration=10s"}, nil, []string{"--leader-election-lease-duration", "10s", "--leader-election-renew-deadline"}},
		{
			"renewing as short as trying with jitter",
			[]string{"--leader-election-renew-deadline=6s", "--leader-election-retry-period=5s"},
			nil,
			[]string{"--leader-election-renew-deadline", "6s", "--leader-election-retry-period", "5s"},
		},
		{"negative lease", []string{"--leader-election-lease-duration=-15s"}, nil, []string{"--leader-election-lease-duration", "-15s"}},
		{"no retry period", []string{"--leader-election-retry-period=0"}, nil, []string{"--leader-election-retry-period", "0s"}},
		{
			"lease that the API cannot express",
			[]string{"--leader-election-lease-duration=900ms", "--leader-election-renew-deadline=500ms", "--leader-election-retry-period=100ms"},
			nil,
			[]string{"--leader-election-lease-duration", "900ms", "1s"},
		},
		{"metrics at a bare port", []string{"--metrics-addr=8080"}, nil, []string{"--metrics-addr", `"8080"`}},
		{"secure metrics nowhere", []string{"--metrics-secure", "--metrics-addr=0"}, nil, []string{"--metrics-secure", "--metrics-addr"}},
		{"health at a port out of range", []string{"--health-probe-addr=:65536"}, nil, []string{"--health-probe-addr", `":65536"`}},
		{"profiles at a bare host", []string{"--pprof-addr=localhost"}, nil, []string{"--pprof-addr", `"localhost"`}},
		{"every problem at once", []string{"--cloneset-workers=0", "--namespace=Bad_NS"}, nil, []string{"--cloneset-workers", "--namespace"}},
		{"neither true nor false of klog", []string{"--logtostderr=maybe"}, nil, []string{"--logtostderr", "maybe"}},
		{"severity of klog", []string{"--stderrthreshold=LOUD"}, nil, []string{"--stderrthreshold", "LOUD"}},
		{"size of klog", []string{"--log_file_max_size=-1"}, nil, []string{"--log-file-max-size", "-1"}},
		{"place of klog", []string{"--log-backtrace-at=main"}, nil, []string{"--log-backtrace-at", "main"}},
		{"namespace of the environment", nil, map[string]string{"POD_NAMESPACE": "Bad_NS"}, []string{"POD_NAMESPACE", `"Bad_NS"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := command(func(name string) string { return tc.env[name] })
			cmd.SetArgs(append([]string{"--kubeconfig=does-not-exist"}, tc.args...))
			err := cmd.ExecuteContext(t.Context())
			if !errors.As(err, new(usage)) {
				t.Fatalf("error %v, want one of usage", err)
			}
			for _, text := range tc.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q does not name %s", err, text)
				}
			}
		})
	}
}

func TestUnreadableKubeconfig(t *testing.T) {
	cmd := command(func(string) string { return "" })
	cmd.SetArgs([]string{"--kubeconfig=does-not-exist"})
	err := cmd.ExecuteContext(t.Context())
	if err == nil || errors.As(err, new(usage)) || !strings.Contains(err.Error(), "does-not-exist") {
		t.Errorf("error %v, want one that names the file and is none of usage", err)
	}
}

// read parses a command line as main does.
func read(args ...string) (*flags, error) {
	f := newFlags(func(string) string { return "" })
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(fs)
	return f, fs.Parse(twoDashes(args))
}

// TestDefaults: without flags, all values are OpenKruise's defaults, except that the number of requests per second is
// unlimited.
func TestDefaults(t *testing.T) {
	options := func(args ...string) manager.Options {
		f, err := read(args...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.options()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := manager.Options{
		MetricsAddress: ":8080", HealthAddress: ":8000", PprofAddress: "localhost:8090", CacheSyncTimeout: 2 * time.Minute, ProtectionLog: "/log",
		LeaderElection: &manager.LeaderElection{
			Namespace: "kruise-system", ID: "kruise-manager", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		Webhooks: &manager.Webhooks{
			Namespace: "kruise-system", SecretName: "kruise-webhook-certs", ServiceName: "kruise-webhook-service", Port: 9876,
			RenewBefore: 180 * 24 * time.Hour, Overlap: 10 * time.Minute, InitializeTimeout: time.Minute,
		},
		RateLimit:          manager.RateLimit{BaseDelay: 5 * time.Millisecond, MaxDelay: 1000 * time.Second, QPS: 10, BucketSize: 100},
		ExpectationTimeout: 5 * time.Minute,
	}
	ignored := cmpopts.IgnoreFields(manager.Options{}, "Gates", "Version", "Kinds", "Loops")
	if diff := cmp.Diff(want, options(), ignored); diff != "" {
		t.Errorf("without flags (-want +got):\n%s", diff)
	}
	want.LeaderElection, want.PprofAddress, want.SyncPeriod = nil, "", time.Hour
	if diff := cmp.Diff(want, options("--enable-leader-election=false", "--enable-pprof=false", "--sync-period=1h"), ignored); diff != "" {
		t.Errorf("with flags (-want +got):\n%s", diff)
	}
}

// TestFlagsOfKlogHaveNoEffect: the command accepts flags of klog in each spelling, and logs that the flags have no
// effect. The exceptions are v and vmodule.
func TestFlagsOfKlogHaveNoEffect(t *testing.T) {
	values := map[string]string{
		"log_file_max_size": "7", "stderrthreshold": "WARNING", "alsologtostderrthreshold": "2", "log_backtrace_at": "main.go:7",
		"log_dir": "/no/such/directory", "log_file": "/no/such/file",
	}
	var all flag.FlagSet
	klog.InitFlags(&all)
	all.VisitAll(func(known *flag.Flag) {
		if known.Name == "v" || known.Name == "vmodule" {
			return
		}
		value, before := values[known.Name], known.Value.String()
		spellings := [][]string{{"=" + value}, {"", value}}
		if value == "" {
			value, spellings = "true", [][]string{{"=true"}, {""}}
		}
		hyphens := strings.ReplaceAll(known.Name, "_", "-")
		for _, name := range []string{"--" + known.Name, "--" + hyphens, "-" + known.Name, "-" + hyphens} {
			for _, rest := range spellings {
				args := append([]string{name + rest[0]}, rest[1:]...)
				want := fmt.Sprintf(`"level"=0 "msg"="flag has no effect: logs go to standard error" "flag"="--%s" "value"=%q`, hyphens, value)
				if diff := cmp.Diff([]string{want}, said(t, args...)); diff != "" {
					t.Errorf("%q (-want +got):\n%s", args, diff)
				}
			}
		}
		if after := known.Value.String(); after != before {
			t.Errorf("%s of klog is %q and was %q", known.Name, after, before)
		}
	})
}

// said returns the log lines about the given flags at the start of the manager. The gate KruiseDaemon is off.
func said(t *testing.T, args ...string) []string {
	t.Helper()
	f, err := read(append(args, "--feature-gates=KruiseDaemon=false")...)
	if err != nil {
		t.Error(err)
	}
	if _, err := f.options(); err != nil {
		t.Error(err)
	}
	var lines []string
	f.announce(funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	return lines
}

// TestVerbosity: v and vmodule still have an effect.
func TestVerbosity(t *testing.T) {
	for _, args := range [][]string{{"-v=7", "-vmodule=main=9"}, {"--v=7", "--vmodule=main=9"}, {"-v", "7", "--vmodule", "main=9"}} {
		f, err := read(args...)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if got := fmt.Sprint(f.logging.Verbosity, f.logging.VModule); got != "7 [{main 9}]" {
			t.Errorf("%q: v and vmodule are %s", args, got)
		}
		if lines := said(t, args...); len(lines) > 0 {
			t.Errorf("%q: said %q", args, lines)
		}
	}
}

// TestTwoDashes: twoDashes changes only flags of klog, and only arguments before the argument "--".
func TestTwoDashes(t *testing.T) {
	in := []string{"-v=4", "-logtostderr", "-log_dir=/tmp", "-kubeconfig", "-", "--", "-logtostderr"}
	want := []string{"-v=4", "--logtostderr", "--log_dir=/tmp", "-kubeconfig", "-", "--", "-logtostderr"}
	if diff := cmp.Diff(want, twoDashes(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGapsOfGatesAreSaid: if a user switches on a gate whose feature is not built, the log says so.
func TestGapsOfGatesAreSaid(t *testing.T) {
	f, err := read("--feature-gates=DaemonWatchingPod=true")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.options(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	f.announce(funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	if len(lines) != 1 || !strings.Contains(lines[0], "DaemonWatchingPod") || !strings.Contains(lines[0], "nothing of it is built") {
		t.Errorf("said %q", lines)
	}
}
