package manager

import (
	"crypto/tls"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/ownercache/fairqueue"
	"github.com/workloadkit/workloadkit/webhookcert"
)

// Options are the options of the manager. With the zero value, the controllers of all installed CRDs run, without
// leader election, without webhooks, and without an open port.
type Options struct {
	// Gates are the feature gates; nil means the defaults.
	Gates map[apps.Gate]bool
	// MetricsAddress, HealthAddress and PprofAddress are the addresses at which metrics, /healthz and /readyz, and
	// profiles are served; empty means that nothing is served.
	MetricsAddress, HealthAddress, PprofAddress string
	// MetricsSecure makes the manager serve metrics by HTTPS, with a self-signed certificate that is made at the
	// start. A caller then needs a token that the API server accepts, and permission to get /metrics. The manager's
	// ServiceAccount needs permission to create tokenreviews and subjectaccessreviews.
	MetricsSecure bool
	// LeaderElection makes only one of several replicas run the controllers at a time. If LeaderElection is nil, the
	// controllers run without an election.
	LeaderElection *LeaderElection
	// Webhooks configures the serving of admission and conversion; nil means that neither is served.
	Webhooks *Webhooks
	// Namespace restricts the controllers to a namespace; empty means all namespaces.
	Namespace string
	// SyncPeriod is how often every object is reconciled again even if nothing has changed; 0 means never.
	SyncPeriod time.Duration
	// CacheSyncTimeout is how long a controller waits for its caches to be filled; 0 means 2 minutes.
	CacheSyncTimeout time.Duration
	// QPS and Burst limit the requests per second of each client. 0 means no limit: the API server's priority and
	// fairness then divides the capacity among clients.
	QPS   float32
	Burst int
	// RateLimit limits how fast failing objects are tried again.
	RateLimit RateLimit
	// ExpectationTimeout is the time after which a delay of the cache is reported: the time for which the cache does
	// not show the controller's own writes. 0 means 5 minutes.
	ExpectationTimeout time.Duration
	// Kinds are the kinds to run and serve, with the values of their flags; nil means [kinds.All].
	Kinds []kind.Row
	// Loops are the reconcile loops for Pods of any owner, which run besides the controllers of Kinds; nil means
	// [kinds.Loops].
	Loops []kinds.Loop
	// ProtectionLog is the directory of the file protection.log. The file gets a line for each request that deletion
	// protection or a PodUnavailableBudget has refused. The manager creates the directory if it is missing. Empty means
	// that there is no log file.
	ProtectionLog string
	// Version is the manager's version, which is part of the user agent.
	Version string
	// Registry is where the controllers' metrics are registered; nil means controller-runtime's registry.
	Registry prometheus.Registerer
}

// LeaderElection says which replica may run the controllers. The default names are those of OpenKruise, so this manager
// and OpenKruise's manager never lead at the same time.
type LeaderElection struct {
	// Namespace and ID name the Lease.
	Namespace, ID string
	// LeaseDuration is how long replicas wait after the leader's last renewal, RenewDeadline how long a leader tries to
	// renew, and RetryPeriod the pause between tries; zero means 15, 10 and 2 seconds.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// ShutdownTimeout is how long running work may continue after the manager has received the signal to stop. The
// termination grace period of the manager's Pod must be longer than ShutdownTimeout, so that the manager can also
// release the Lease.
const ShutdownTimeout = 30 * time.Second

// RateLimit limits how often the controllers reconcile failing objects. The next reconciliation of a failing object
// waits for the longer of two delays: an exponential back-off for each object, and a token bucket for each namespace.
type RateLimit struct {
	// BaseDelay and MaxDelay are the shortest and longest back-off; zero means 5 milliseconds and 1000 seconds.
	BaseDelay, MaxDelay time.Duration
	// QPS and BucketSize are the rate and the size of the token bucket; zero means 10 and 100.
	QPS        float64
	BucketSize int
}

// metricsServer returns the options of the server for metrics.
func (o Options) metricsServer() metricsserver.Options {
	out := metricsserver.Options{BindAddress: orDefault(o.MetricsAddress, "0"), SecureServing: o.MetricsSecure}
	if o.MetricsSecure {
		out.FilterProvider = scrapersFilter
		// HTTP/2 is off, because a client could open many streams before any authentication.
		out.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	return out
}

// limiter returns the rate limiter of a controller's queue.
func (r RateLimit) limiter() fairqueue.Limiter { return fairqueue.PerNamespace(r.ofNamespace) }

func (r RateLimit) ofNamespace() fairqueue.Limiter {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			orDefault(r.BaseDelay, 5*time.Millisecond), orDefault(r.MaxDelay, 1000*time.Second)),
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{
			Limiter: rate.NewLimiter(rate.Limit(orDefault(r.QPS, 10)), orDefault(r.BucketSize, 100)),
		})
}

// Webhooks configures the serving of admission and conversion. [WebhooksFromEnv] reads Webhooks from the environment.
type Webhooks struct {
	// Namespace is the namespace of the Secret and the Service.
	Namespace, SecretName, ServiceName string
	// Host, if set, is the host at which the API server calls the webhooks, at Port. Then the Service is not used. Host
	// is a lower-case DNS name or an IP address.
	Host string
	// Port is the port at which the API server calls Host. The webhooks listen on the same port, unless ListenPort is
	// set: if Host is a proxy in front of several replicas, the replicas may need another port.
	Port, ListenPort int
	// CertDir, if set, is a directory into which the certificates are written as files.
	CertDir string
	// RenewBefore is how long before its expiry the serving certificate is renewed; 0 means 180 days.
	RenewBefore time.Duration
	// Overlap is the time between two steps of a rotation of the CA; 0 means 10 minutes. Within this time, each API
	// server and each replica must read the Secret and CA bundles that the step has changed.
	Overlap time.Duration
	// InitializeTimeout is how long the webhooks may take to serve before an error is logged; 0 means a minute.
	// OpenKruise's manager then exits; this manager does not, because exiting would not help.
	InitializeTimeout time.Duration
}

// WebhooksFromEnv reads the environment variables that OpenKruise reads. An error names the variable, the value and the
// allowed values.
func WebhooksFromEnv(getenv func(string) string) (Webhooks, error) {
	or := func(name, value string) string {
		if set := getenv(name); set != "" {
			return set
		}
		return value
	}
	w := Webhooks{
		Namespace:   or("POD_NAMESPACE", "kruise-system"),
		SecretName:  or("SECRET_NAME", "kruise-webhook-certs"),
		ServiceName: or("SERVICE_NAME", "kruise-webhook-service"),
		Host:        getenv("WEBHOOK_HOST"),
		CertDir:     getenv("WEBHOOK_CERT_DIR"),
	}
	if err := w.validate(); err != nil {
		return w, err
	}
	var err error
	if w.Port, err = strconv.Atoi(or("WEBHOOK_PORT", "9876")); err != nil || w.Port < 1 || w.Port > 65535 {
		return w, fmt.Errorf("WEBHOOK_PORT %q: want a port, 1 to 65535", getenv("WEBHOOK_PORT"))
	}
	if w.RenewBefore, err = parseAge(or("CERTS_RENEW_BEFORE", "180d")); err != nil {
		return w, fmt.Errorf("CERTS_RENEW_BEFORE: %w", err)
	}
	if writer := getenv("WEBHOOK_CERT_WRITER"); writer != "" && writer != "secret" {
		return w, fmt.Errorf("WEBHOOK_CERT_WRITER %q: certificates are kept in a Secret; set WEBHOOK_CERT_DIR for files beside it", writer)
	}
	return w, nil
}

// validate returns an error for the first name that is invalid.
func (w Webhooks) validate() error {
	for _, name := range []struct {
		variable, value string
		check           func(string) []string
	}{
		{"POD_NAMESPACE", w.Namespace, validation.IsDNS1123Label},
		{"SECRET_NAME", w.SecretName, validation.IsDNS1123Subdomain},
		{"SERVICE_NAME", w.ServiceName, validation.IsDNS1123Label},
		{"WEBHOOK_HOST", w.Host, func(host string) []string {
			if host == "" {
				return nil
			}
			if err := webhookcert.CheckHost(host); err != nil {
				return []string{err.Error()}
			}
			return nil
		}},
	} {
		if problems := name.check(name.value); len(problems) > 0 {
			return fmt.Errorf("%s %q: %s", name.variable, name.value, strings.Join(problems, "; "))
		}
	}
	return nil
}

// parseAge reads a number of days, of months with 30 days, or of years with 365 days: "180d", "6m", "1y".
func parseAge(s string) (time.Duration, error) {
	const day, longest = 24 * time.Hour, 100 * 365
	units := map[string]int{"d": 1, "m": 30, "y": 365}
	for suffix, days := range units {
		digits, ok := strings.CutSuffix(s, suffix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && n <= longest/days {
			return time.Duration(n*days) * day, nil
		}
	}
	return 0, fmt.Errorf("%q: want a number of days, months or years, such as 180d, 6m or 1y, of at most a hundred years", s)
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// identity returns the holderIdentity of this process in the Lease. The prefix tells this manager's replicas from the
// managers of other projects.
func identity(id string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return identityPrefix + host + "_" + id
}

const identityPrefix = "workloadkit_"
