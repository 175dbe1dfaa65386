// Package manager answers "how do the reference controllers run together?": it assembles those whose CRDs are installed
// into one controller-runtime manager.
package manager

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/cloneset"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
)

// Options of the manager. The zero value runs every controller whose CRD is there, without leader election and without
// opening a port.
type Options struct {
	// Gates are the feature gates; nil stands for the defaults.
	Gates map[apps.Gate]bool
	// MetricsAddress is where metrics are served; empty serves none.
	MetricsAddress string
	// CloneSetWorkers is how many CloneSets are reconciled side by side; 0 means 3.
	CloneSetWorkers int
	// ExcludePreparingDelete is the global form of the CloneSet field of that name (C-30).
	ExcludePreparingDelete bool
	// Version is part of the user agent.
	Version string
	// Registry takes the controllers' metrics; nil stands for controller-runtime's.
	Registry prometheus.Registerer
}

// AddToScheme registers every type that the controllers use.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	return v1beta1.AddToScheme(scheme)
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

// Run runs the controllers until ctx ends. It returns an error when the API server cannot be reached or a controller cannot
// be set up. Loggers come from ctx.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	log := logr.FromContextOrDiscard(ctx)
	config = rest.CopyConfig(config)
	// The API server's priority and fairness shares requests out better than a fixed rate here could.
	config.QPS, config.Burst = -1, 0
	config.UserAgent = userAgent(options.Version, "manager")

	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return fmt.Errorf("registering API types: %w", err)
	}
	metricsAddress := options.MetricsAddress
	if metricsAddress == "" {
		metricsAddress = "0"
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: log,
		Metrics: metricsserver.Options{BindAddress: metricsAddress},
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		// Whoever embeds this may run several managers in one process, one after the other.
		// The plain queue, because controller-runtime's priority queue can hang when it is stopped while it hands an item out.
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)},
		// Writes go through a client per controller, which names itself.
		Client: client.Options{},
	})
	if err != nil {
		return fmt.Errorf("building the manager for %s: %w", config.Host, err)
	}
	version, err := serverVersion(config)
	if err != nil {
		return err
	}
	log.Info("connected", "server", config.Host, "version", version)
	for _, c := range controllers() {
		installed, err := isInstalled(mgr.GetRESTMapper(), c.kind)
		if err != nil {
			return err
		}
		if !installed {
			log.Info("controller stays idle: its CRD is not installed", "controller", c.name, "kind", c.kind.String())
			continue
		}
		named, err := namedClient(config, mgr, options.Version, c.name)
		if err != nil {
			return err
		}
		if err := c.setup(ctx, mgr, named, options, version); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// entry is one controller of the manager.
type entry struct {
	name  string
	kind  schema.GroupVersionKind
	setup func(ctx context.Context, mgr ctrl.Manager, c client.Client, options Options, serverVersion string) error
}

func controllers() []entry {
	return []entry{{
		name: "cloneset-controller", kind: v1beta1.GroupVersion.WithKind("CloneSet"),
		setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, options Options, serverVersion string) error {
			registry := options.Registry
			if registry == nil {
				registry = metrics.Registry
			}
			m, err := cloneset.NewMetrics(registry)
			if err != nil {
				return fmt.Errorf("metrics of controller cloneset: %w", err)
			}
			return cloneset.Setup(ctx, mgr, c, cloneset.Options{
				Gates: options.Gates, Workers: options.CloneSetWorkers, Metrics: m,
				ExcludePreparingDelete: options.ExcludePreparingDelete,
				ResizeInSpec:           !kruise.HasResizeSubresource(serverVersion),
			})
		},
	}}
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
