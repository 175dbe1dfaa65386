// Package manager runs the reference controllers of all installed CRDs, and their webhooks, in a single
// controller-runtime manager.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
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
	"github.com/workloadkit/workloadkit/examples/kinds"
)

// Run runs the webhooks and the controllers until ctx ends. The webhooks serve on every replica, and before any cache
// is filled, because a cache reads objects in an older version through the conversion webhooks. The controllers start
// on the leader. A replica becomes the leader only after a check has proven that the replica's webhooks serve. Run
// returns an error when the API server cannot be reached, an address is in use, or a controller cannot be set up. Run
// returns nil if ctx has ended, even while Run is still starting. Run takes the logger from ctx.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	err := run(ctx, config, options)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func run(ctx context.Context, config *rest.Config, options Options) error {
	log := logr.FromContextOrDiscard(ctx)
	config, options = complete(config, options)
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
	served, err := newServed(direct, options.Registry, log)
	if err != nil {
		return err
	}
	seen := newLists(log, clock.RealClock{})
	ctrlOptions, err := managerOptions(ctx, config, options, served, seen)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	ctrlOptions.NewCache = newEndingCache(ended)
	pods, hooks := &podWebhook{}, noWebhooks()
	if options.Webhooks != nil {
		if hooks, err = newWebhooks(direct, options, pods, log); err != nil {
			return err
		}
		ctrlOptions.WebhookServer = hooks.server
		ctrlOptions.LeaderElectionResourceLockInterface = afterServing(
			ctrlOptions.LeaderElectionResourceLockInterface, hooks.ready, ptr.Deref(ctrlOptions.RetryPeriod, 0))
	}
	mgr, err := ctrl.NewManager(config, ctrlOptions)
	if err != nil {
		return fmt.Errorf("building the manager for %s: %w", config.Host, err)
	}
	guards, err := guardsOf(ctx, mgr, &options, served)
	if err != nil {
		return err
	}
	launch := &launcher{mgr: mgr, config: config, options: options, version: version, serving: hooks.ready, served: served, permit: permitOf(guards)}
	if err := errors.Join(
		addChecks(mgr, hooks, served, seen),
		mgr.Add(launch),
		reportLeadership(mgr, options.Registry),
	); err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	if options.Webhooks != nil {
		hooks.server.failed = failed
		_ = mgr.GetWebhookServer() // starts the server with the manager
		if err := pods.serve(ctx, mgr, &options, hooks.options, served, guards); err != nil {
			return err
		}
	}
	return start(ctx, mgr, launch, ended)
}

// complete fills in the defaults.
func complete(config *rest.Config, options Options) (*rest.Config, Options) {
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
	if options.Loops == nil {
		options.Loops = kinds.Loops()
	}
	options.Registry = orDefault[prometheus.Registerer](options.Registry, metrics.Registry)
	return config, options
}

// start runs a manager until ctx ends, and closes the channel ended as soon as the manager must stop. If ctx was
// cancelled with a cause, such as the error of a failed server, start returns the cause.
func start(ctx context.Context, mgr ctrl.Manager, launch *launcher, ended chan<- struct{}) error {
	running, end := launch.untilLaunched(ctx)
	defer end()
	defer context.AfterFunc(running, func() { close(ended) })()
	defer launch.served.follow(running)()
	err := mgr.Start(running)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// addChecks adds the checks behind /healthz and /readyz. Of the checks behind /readyz, only webhook-ready makes a
// replica unready. The remaining checks inform operators.
func addChecks(mgr ctrl.Manager, hooks *webhooks, served *served, seen *lists) error {
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("webhook-ready", func(r *http.Request) error { return hooks.ready(r.Context()) }),
		mgr.AddReadyzCheck("webhook-bundles", func(*http.Request) error { return hooks.faults() }),
		mgr.AddReadyzCheck("watches", func(*http.Request) error { return served.ready() }),
		mgr.AddReadyzCheck("caches", func(*http.Request) error { return seen.ready() }),
	)
}

func orGates(gates map[apps.Gate]bool) map[apps.Gate]bool {
	if gates == nil {
		return apps.DefaultGates()
	}
	return gates
}

func always(context.Context) error { return nil }

// prepare creates the namespaces of the Secret and of the Lease, if a namespace is missing.
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

// managerOptions returns the options of the controller-runtime manager.
func managerOptions(ctx context.Context, config *rest.Config, options Options, served *served, seen *lists) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return ctrl.Options{}, fmt.Errorf("registering API types: %w", err)
	}
	watchErrors, err := countWatchErrors(options.Registry, seen)
	if err != nil {
		return ctrl.Options{}, err
	}
	byObject := cached(options.Gates, options.Kinds, options.Loops)
	out := ctrl.Options{
		Scheme: scheme, Logger: logr.FromContextOrDiscard(ctx), MapperProvider: served.mapper,
		Metrics:                 options.metricsServer(),
		HealthProbeBindAddress:  orDefault(options.HealthAddress, "0"),
		PprofBindAddress:        options.PprofAddress,
		GracefulShutdownTimeout: ptr.To(ShutdownTimeout),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         byObject, DefaultWatchErrorHandler: watchErrors, NewInformer: served.watches.NewInformer,
		},
		Controller: ctrlconfig.Controller{
			// Programs that embed the manager may run several managers in a process, one after the other.
			SkipNameValidation: ptr.To(true),
			// controller-runtime's priority queue can hang if it is stopped while it hands out an item.
			UsePriorityQueue: ptr.To(false),
			CacheSyncTimeout: options.CacheSyncTimeout,
		},
	}
	if options.SyncPeriod > 0 {
		out.Cache.SyncPeriod = &options.SyncPeriod
	}
	if options.Namespace != "" {
		// The cache's option DefaultNamespaces would create a store for each namespace, but the tracking of the
		// manager's own writes needs a single store for each type.
		out.Cache.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", options.Namespace)
		if err := everywhere(scheme, byObject); err != nil {
			return out, err
		}
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

// everywhere exempts cluster-scoped kinds from the restriction of the cache to a namespace. Each type gets a single
// entry in byObject, because controller-runtime would use any one of several entries.
func everywhere(scheme *runtime.Scheme, byObject map[client.Object]cache.ByObject) error {
	entries := map[reflect.Type]client.Object{}
	for object := range byObject {
		entries[reflect.TypeOf(object)] = object
	}
	for _, k := range kinds.All() {
		if !k.ClusterScoped {
			continue
		}
		empty, err := scheme.New(k.Kind)
		if err != nil {
			return fmt.Errorf("an object of %s: %w", k.Kind, err)
		}
		object, ok := empty.(client.Object)
		if !ok {
			return fmt.Errorf("an object of %s: %T has no metadata", k.Kind, empty)
		}
		entry := cache.ByObject{Transform: cache.TransformStripManagedFields()}
		if listed := entries[reflect.TypeOf(object)]; listed != nil {
			object, entry = listed, byObject[listed]
		}
		entry.Field = fields.Everything()
		byObject[object] = entry
	}
	return nil
}
