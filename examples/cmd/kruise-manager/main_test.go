package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// TestBadUsage: what cannot be used ends with exit code 2 before anything is connected to, and is named.
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
		{"gate of what is not built", []string{"--feature-gates=ImagePullJobGate=true"}, nil, []string{"ImagePullJobGate"}},
		{"lock of old", []string{"--leader-election-resource-lock=configmaps"}, nil, []string{"--leader-election-resource-lock", "configmaps", "leases"}},
		{"sync period without a unit", []string{"--sync-period=10"}, nil, []string{"--sync-period", `"10"`}},
		{"negative sync period", []string{"--sync-period=-1s"}, nil, []string{"--sync-period", "-1s"}},
		{"no overlap", []string{"--webhook-cert-overlap=0"}, nil, []string{"--webhook-cert-overlap"}},
		{"port out of range", []string{"--webhook-listen-port=70000"}, nil, []string{"--webhook-listen-port", "70000"}},
		{"port of the environment", nil, map[string]string{"WEBHOOK_PORT": "x"}, []string{"WEBHOOK_PORT", `"x"`}},
		{"unknown log format", []string{"--logging-format=xml"}, nil, []string{"xml"}},
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

// TestDefaults: a command line without flags gives what OpenKruise has by default (LG, MG-5), but for the requests in a
// second, which are not limited here.
func TestDefaults(t *testing.T) {
	options := func(args ...string) manager.Options {
		f := newFlags(func(string) string { return "" })
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.add(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		out, err := f.options()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := manager.Options{
		MetricsAddress: ":8080", HealthAddress: ":8000", PprofAddress: ":8090", CacheSyncTimeout: 2 * time.Minute,
		LeaderElection: &manager.LeaderElection{
			Namespace: "kruise-system", ID: "kruise-manager", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		Webhooks: &manager.Webhooks{
			Namespace: "kruise-system", SecretName: "kruise-webhook-certs", ServiceName: "kruise-webhook-service", Port: 9876,
			RenewBefore: 180 * 24 * time.Hour, Overlap: 10 * time.Minute, InitializeTimeout: time.Minute,
		},
		RateLimit:          manager.RateLimit{BaseDelay: 5 * time.Millisecond, MaxDelay: 1000 * time.Second, QPS: 10, BucketSize: 100},
		ExpectationTimeout: 5 * time.Minute, CloneSetWorkers: 3,
	}
	ignored := cmpopts.IgnoreFields(manager.Options{}, "Gates", "Version")
	if diff := cmp.Diff(want, options(), ignored); diff != "" {
		t.Errorf("without flags (-want +got):\n%s", diff)
	}
	want.LeaderElection, want.PprofAddress, want.SyncPeriod = nil, "", time.Hour
	if diff := cmp.Diff(want, options("--enable-leader-election=false", "--enable-pprof=false", "--sync-period=1h"), ignored); diff != "" {
		t.Errorf("with flags (-want +got):\n%s", diff)
	}
}
