package manager

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/kinds"
)

// AddToScheme registers every type that the controllers use.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	return kinds.AddToScheme(scheme)
}

// NewClient returns a client without a cache for every type that the controllers use, for commands and tests.
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

// namedClient returns a client that writes with a user agent made from the controller's name, and reads from the
// manager's cache.
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
