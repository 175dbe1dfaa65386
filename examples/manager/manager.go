// Package manager answers "how do the reference controllers run together?": it assembles those whose CRDs are installed
// into one controller-runtime manager.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

// AddToScheme registers every type that the controllers use.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	return kinds.AddToScheme(scheme)
}

// NewClient returns a client without a cache that knows every type the controllers use, for commands and tests.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering API types: %w", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return c, nil
}

// Run runs webhooks and controllers until ctx ends. The webhooks serve on every replica and before any cache is filled, because
// objects that are stored in an older version reach a cache through them; the controllers follow when the webhooks are proven
// to serve, on the replica that leads, and none leads before that. It returns an error when the API server cannot be reached, an address is taken, or a
// controller cannot be set up. Loggers come from ctx.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	log := logr.FromContextOrDiscard(ctx)
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = options.QPS, options.Burst
	if options.QPS == 0 {
		config.QPS = -1
	}
	config.UserAgent = userAgent(options.Version, "manager")
	options.Gates = orGates(options.Gates)
	if options.Kinds == nil {
		options.Kinds = kinds.All()
	}
	options.Registry = orDefault[prometheus.Registerer](options.Registry, metrics.Registry)

	version, err := serverVersion(config)
	if err != nil {
		return err
	}
	log.Info("connected", "server", config.Host, "version", version)
	direct, err := NewClient(config)
	if err != nil {
		return err
	}
	if err := prepare(ctx, direct, options); err != nil {
		return err
	}
	ctrlOptions, err := managerOptions(ctx, config, options)
	if err != nil {
		return err
	}
	serving := always
	if options.Webhooks != nil {
		server, ready, err := newWebhooks(direct, options, log)
		if err != nil {
			return err
		}
		ctrlOptions.WebhookServer, serving = server, ready
		ctrlOptions.LeaderElectionResourceLockInterface = afterServing(
			ctrlOptions.LeaderElectionResourceLockInterface, serving, ptr.Deref(ctrlOptions.RetryPeriod, 0))
	}
	mgr, err := ctrl.NewManager(config, ctrlOptions)
	if err != nil {
		return fmt.Errorf("building the manager for %s: %w", config.Host, err)
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("webhook-ready", func(r *http.Request) error { return serving(r.Context()) }),
		mgr.Add(&launcher{mgr: mgr, config: config, options: options, version: version, serving: serving}),
		reportLeadership(mgr, options.Registry),
	); err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	if options.Webhooks != nil {
		_ = mgr.GetWebhookServer() // has it started with the manager
	}
	return mgr.Start(ctx)
}

func orGates(gates map[apps.Gate]bool) map[apps.Gate]bool {
	if gates == nil {
		return apps.DefaultGates()
	}
	return gates
}

func always(context.Context) error { return nil }

// prepare creates the namespace that is written to, if need be.
func prepare(ctx context.Context, c client.Client, options Options) error {
	var names []string
	if options.Webhooks != nil {
		names = append(names, options.Webhooks.Namespace)
	}
	if options.LeaderElection != nil {
		names = append(names, options.LeaderElection.Namespace)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := ensureNamespace(ctx, c, name); err != nil {
			return err
		}
	}
	return nil
}

// managerOptions are those of the controller-runtime manager.
func managerOptions(ctx context.Context, config *rest.Config, options Options) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return ctrl.Options{}, fmt.Errorf("registering API types: %w", err)
	}
	watchErrors, err := countWatchErrors(options.Registry)
	if err != nil {
		return ctrl.Options{}, err
	}
	out := ctrl.Options{
		Scheme: scheme, Logger: logr.FromContextOrDiscard(ctx),
		Metrics:                 options.metricsServer(),
		HealthProbeBindAddress:  orDefault(options.HealthAddress, "0"),
		PprofBindAddress:        options.PprofAddress,
		GracefulShutdownTimeout: ptr.To(ShutdownTimeout),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         cached(), DefaultWatchErrorHandler: watchErrors,
		},
		Controller: ctrlconfig.Controller{
			// Whoever embeds this may run several managers in one process, one after the other.
			SkipNameValidation: ptr.To(true),
			// The plain queue, because controller-runtime's priority queue can hang when it is stopped while it hands an item out.
			UsePriorityQueue: ptr.To(false),
			CacheSyncTimeout: options.CacheSyncTimeout,
		},
	}
	if options.SyncPeriod > 0 {
		out.Cache.SyncPeriod = &options.SyncPeriod
	}
	if options.Namespace != "" {
		// A selector and not the option for namespaces, because own writes can only be awaited in one store per type.
		out.Cache.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", options.Namespace)
		out.Cache.ByObject[nodeMetadata()] = cache.ByObject{Field: fields.Everything()}
	}
	if e := options.LeaderElection; e != nil {
		lock, err := newLock(config, e)
		if err != nil {
			return out, err
		}
		out.LeaderElection, out.LeaderElectionReleaseOnCancel = true, true
		out.LeaderElectionResourceLockInterface = lock
		out.LeaseDuration = ptr.To(orDefault(e.LeaseDuration, 15*time.Second))
		out.RenewDeadline = ptr.To(orDefault(e.RenewDeadline, 10*time.Second))
		out.RetryPeriod = ptr.To(orDefault(e.RetryPeriod, 2*time.Second))
	}
	return out, nil
}

func nodeMetadata() client.Object {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return node
}

// launcher sets the controllers up once the webhooks serve.
type launcher struct {
	mgr     ctrl.Manager
	config  *rest.Config
	options Options
	version string
	serving func(context.Context) error
}

// NeedLeaderElection is false: standing by with filled caches makes the change of leader quick.
func (*launcher) NeedLeaderElection() bool { return false }

// Start returns when the controllers are set up.
func (l *launcher) Start(ctx context.Context) error {
	log := l.mgr.GetLogger()
	if err := l.awaitWebhooks(ctx); err != nil {
		return nil //nolint:nilerr // The manager is ending.
	}
	for _, k := range l.options.Kinds {
		installed, err := isInstalled(l.mgr.GetRESTMapper(), k.Kind)
		if err != nil {
			return err
		}
		if !installed {
			log.Info("controller stays idle: its CRD is not installed", "controller", k.Controller, "kind", k.Kind.String())
			continue
		}
		named, err := namedClient(l.config, l.mgr, l.options.Version, k.Controller)
		if err != nil {
			return err
		}
		shared, err := l.options.controller(k, l.version)
		if err != nil {
			return err
		}
		if err := k.Setup(logr.NewContext(ctx, log), l.mgr, named, shared); err != nil {
			return err
		}
	}
	return nil
}

// awaitWebhooks returns when the webhooks are proven to serve, or the context's error.
func (l *launcher) awaitWebhooks(ctx context.Context) error {
	if l.options.Webhooks == nil {
		return nil
	}
	timeout := orDefault(l.options.Webhooks.InitializeTimeout, time.Minute)
	late := clock.RealClock{}.Now().Add(timeout)
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := l.serving(ctx)
		if err != nil && !late.IsZero() && (clock.RealClock{}).Now().After(late) {
			l.mgr.GetLogger().Error(err, "webhooks do not serve yet; controllers wait for them", "since", timeout)
			late = time.Time{}
		}
		return err == nil, nil
	})
}

// controller returns the options of a kind's controller.
func (o *Options) controller(k kinds.Kind, serverVersion string) (kruise.Options, error) {
	m, err := kruise.NewMetrics(o.Registry, k.Name())
	if err != nil {
		return kruise.Options{}, fmt.Errorf("metrics of %s: %w", k.Controller, err)
	}
	return kruise.Options{
		Gates: o.Gates, Metrics: m, Namespace: o.Namespace, RateLimiter: o.RateLimit.limiter, Workers: *k.Workers,
		ExpectationTimeout: orDefault(o.ExpectationTimeout, 5*time.Minute),
		ResizeInSpec:       !kruise.HasResizeSubresource(serverVersion),
	}, nil
}

func isInstalled(mapper meta.RESTMapper, kind schema.GroupVersionKind) (bool, error) {
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s is installed: %w", kind, err)
	}
	return true, nil
}

// namedClient writes under a user agent that names the controller and reads from the manager's cache.
func namedClient(config *rest.Config, mgr ctrl.Manager, version, controller string) (client.Client, error) {
	own := rest.CopyConfig(config)
	own.UserAgent = userAgent(version, controller)
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", controller, err)
	}
	c, err := client.New(own, client.Options{
		HTTPClient: httpClient, Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		Cache: &client.CacheOptions{Reader: mgr.GetCache()},
	})
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", controller, err)
	}
	return c, nil
}

func userAgent(version, controller string) string {
	if version == "" {
		version = "dev"
	}
	return "kruise-manager/" + version + " " + controller
}

func serverVersion(config *rest.Config) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("discovery client for %s: %w", config.Host, err)
	}
	version, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", config.Host, err)
	}
	return version.GitVersion, nil
}
