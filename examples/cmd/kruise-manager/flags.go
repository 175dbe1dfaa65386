package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
)

// flags are the flags of the command line that have an effect. Flags that OpenKruise's manager also has keep their
// names.
type flags struct {
	getenv  func(string) string
	all     *pflag.FlagSet
	logging *logsapi.LoggingConfiguration
	set     manager.Options
	leader  manager.LeaderElection

	kubeconfig, gates, lock, syncPeriod string
	elect, profile                      bool
	initializeTimeout, overlap          time.Duration
	listenPort                          int
}

func newFlags(getenv func(string) string) *flags {
	return &flags{getenv: getenv, logging: logsapi.NewLoggingConfiguration(), set: manager.Options{Version: buildVersion(), Kinds: kinds.All(), Loops: kinds.Loops()}}
}

func (f *flags) add(fs *pflag.FlagSet) {
	f.all = fs
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc) // klog's flags may be written with _ instead of -
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the cluster this process runs in")
	fs.StringVar(&f.gates, "feature-gates", "", "feature gates, as Name=true,Other=false; AllAlpha and AllBeta stand for those of a stage that are built")
	fs.StringVar(&f.set.MetricsAddress, "metrics-addr", ":8080", "address to serve metrics on; 0 serves none")
	fs.BoolVar(&f.set.MetricsSecure, "metrics-secure", false, "serve metrics by HTTPS to those whom the API server lets get /metrics")
	fs.StringVar(&f.set.HealthAddress, "health-probe-addr", ":8000", "address to serve /healthz and /readyz on; 0 serves none")
	fs.BoolVar(&f.profile, "enable-pprof", true, "serve profiles")
	fs.StringVar(&f.set.PprofAddress, "pprof-addr", "localhost:8090", "address to serve profiles on; 0 serves none")
	fs.StringVar(&f.set.ProtectionLog, "protection-log-path", "/log",
		"directory of protection.log, with a line for each deletion that was refused; needs the gate ResourcesDeletionProtection")
	fs.StringVar(&f.set.Namespace, "namespace", "", "namespace to work in; empty means all")
	fs.StringVar(&f.syncPeriod, "sync-period", "", "how often to look at every object again although nothing has changed; empty or 0 means never")
	fs.DurationVar(&f.set.CacheSyncTimeout, "controller-cache-sync-timeout", 2*time.Minute, "how long a controller waits for its caches")
	fs.Float32Var(&f.set.QPS, "rest-config-qps", 0, "requests in a second of each client; 0 leaves sharing to the API server's priority and fairness")
	fs.IntVar(&f.set.Burst, "rest-config-burst", 0, "requests beyond that in a burst")
	fs.DurationVar(&f.set.ExpectationTimeout, "expectation-timeout", 5*time.Minute, "how long own writes may be missing from the cache before it is reported")
	f.addLeaderElection(fs)
	f.addRateLimit(fs)
	fs.DurationVar(&f.initializeTimeout, "webhook-initialize-timeout", time.Minute, "after how long it is logged as an error that the webhooks do not serve yet")
	fs.DurationVar(&f.overlap, "webhook-cert-overlap", 10*time.Minute, "how long each step of a rotation of the certificate authority is published before the next")
	fs.IntVar(&f.listenPort, "webhook-listen-port", 0, "port the webhooks listen on if it is not WEBHOOK_PORT, behind a proxy")
	kind.AddFlags(f.set.Kinds, fs)
	kinds.AddLoopFlags(f.set.Loops, fs)
	logsapi.AddFlags(f.logging, fs)
	logs.AddFlags(fs, logs.SkipLoggingConfigurationFlags())
	addKlog(fs)
}

func (f *flags) addLeaderElection(fs *pflag.FlagSet) {
	fs.BoolVar(&f.elect, "enable-leader-election", true, "run the controllers on one replica at a time")
	fs.StringVar(&f.leader.Namespace, "leader-election-namespace", "kruise-system", "namespace of the Lease")
	fs.StringVar(&f.leader.ID, "leader-election-id", "kruise-manager", "name of the Lease")
	fs.StringVar(&f.lock, "leader-election-resource-lock", "leases", "kind of the lock; there are only leases")
	fs.DurationVar(&f.leader.LeaseDuration, "leader-election-lease-duration", 15*time.Second, "how long a leader that is not heard of is waited for")
	fs.DurationVar(&f.leader.RenewDeadline, "leader-election-renew-deadline", 10*time.Second, "how long the leader tries to renew")
	fs.DurationVar(&f.leader.RetryPeriod, "leader-election-retry-period", 2*time.Second, "how often to try")
}

func (f *flags) addRateLimit(fs *pflag.FlagSet) {
	r := &f.set.RateLimit
	fs.DurationVar(&r.BaseDelay, "rate-limiter-base-delay", 5*time.Millisecond, "first delay of an object that fails")
	fs.DurationVar(&r.MaxDelay, "rate-limiter-max-delay", 1000*time.Second, "longest delay of an object that fails")
	fs.Float64Var(&r.QPS, "rate-limiter-qps", 10, "objects that fail and are tried again in a second, for each queue")
	fs.IntVar(&r.BucketSize, "rate-limiter-bucket-size", 100, "objects beyond that in a burst")
}

// options returns the options of the manager. An error names an invalid value in the command line or in the
// environment.
func (f *flags) options() (manager.Options, error) {
	out := f.set
	err := f.validate()
	if err != nil {
		return out, err
	}
	if out.Gates, err = manager.ParseGates(f.gates); err != nil {
		return out, err
	}
	if f.elect {
		out.LeaderElection = &f.leader
	}
	if !f.profile {
		out.PprofAddress = ""
	}
	if f.syncPeriod != "" {
		if out.SyncPeriod, err = time.ParseDuration(f.syncPeriod); err != nil || out.SyncPeriod < 0 {
			return out, fmt.Errorf("--sync-period %q: want a duration such as 10h", f.syncPeriod)
		}
	}
	webhooks, err := manager.WebhooksFromEnv(f.getenv)
	if err != nil {
		return out, err
	}
	webhooks.ListenPort, webhooks.InitializeTimeout, webhooks.Overlap = f.listenPort, f.initializeTimeout, f.overlap
	out.Webhooks = &webhooks
	return out, nil
}

// announce logs the flags and feature gates of the command line that have no effect, or only part of their effect.
func (f *flags) announce(log logr.Logger) {
	f.all.Visit(func(set *pflag.Flag) {
		if _, ok := set.Value.(*unused); ok {
			log.Info("flag has no effect: logs go to standard error", "flag", "--"+set.Name, "value", set.Value.String())
		}
	})
	gaps, err := manager.GateGaps(f.gates)
	if err != nil {
		log.Error(err, "feature gates") // an error is impossible, because the gates were parsed before
	}
	for _, gate := range slices.Sorted(maps.Keys(gaps)) {
		log.Info("WARNING: a feature gate is only partly built", "gate", gate, "missing", gaps[gate])
	}
}
