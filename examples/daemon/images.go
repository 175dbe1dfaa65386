package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/examples/daemon/images"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/pullsecret/execprovider"
)

// Images configures the pulls of images.
type Images struct {
	// Bounds limit the pulls.
	Bounds imagepull.Bounds
	// Root is the directory in the agent's container at which the Node's root directory is mounted. The agent
	// measures the free disk space there, if Bounds.Floor is set.
	Root string
	// Providers is the path of the configuration of the kubelet's credential providers. Plugins is the directory of
	// the providers' programs. If the configuration file does not exist, there are no providers.
	Providers, Plugins string
}

func newImages(config *rest.Config, node string, o Images, runtimes *cri.Runtimes, counts *metrics) (*images.Agent, error) {
	client, err := agent.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("pull secrets of the agent: %w", err)
	}
	sink, err := newEvents(config, node)
	if err != nil {
		return nil, err
	}
	providers, err := providersOf(o)
	if err != nil {
		return nil, err
	}
	return images.New(config, node, images.Options{
		Bounds: o.Bounds, Runtime: stored{runtimes, o.Root}, Providers: providers, Tell: sink.tellOfImages, Pulled: counts.pulled,
		Secret: func(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
			secret := &corev1.Secret{}
			return secret, client.Get().Namespace(name.Namespace).Resource("secrets").Name(name.Name).Do(ctx).Into(secret)
		},
	})
}

// providersOf loads the credential providers. As in OpenKruise's daemon, a missing configuration is not an error.
func providersOf(o Images) (*execprovider.Providers, error) {
	if _, err := os.Stat(o.Providers); o.Providers == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	providers, err := execprovider.Load(o.Providers, o.Plugins, execprovider.Options{})
	if err != nil {
		return nil, fmt.Errorf("credential providers: %w", err)
	}
	return providers, nil
}

// stored gives access to the images in the Node's container runtime.
type stored struct {
	*cri.Runtimes

	root string
}

// FreeBytes implements images.Runtime.
func (s stored) FreeBytes(ctx context.Context) (uint64, error) {
	directory, err := s.ImageDirectory(ctx)
	if err != nil {
		return 0, err
	}
	return freeBytes(filepath.Join(s.root, directory))
}
