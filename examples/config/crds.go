// Package config embeds the manifests that install the reference controllers, for commands and tests that run outside
// the source tree.
package config

import (
	"context"
	"embed"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/testing/install"
)

//go:embed crd webhook daemon daemon-webhook imagepulljob
var manifests embed.FS

// InstallCRDs applies the CRDs of the reference controllers, and waits until the API server serves the stored version
// of each kind. The API server can serve further versions only while a manager serves the conversion webhook. If the
// CRDs are applied already, nothing changes. In particular, the address of the conversion webhook is kept, because a
// manager outside the cluster may have set the address.
func InstallCRDs(ctx context.Context, c client.Client) error {
	return each("crd", func(raw []byte) error { return install.CRD(ctx, c, raw) })
}

// InstallWebhooks applies the webhook configurations of the reference controllers. From then on, the API server refuses
// writes of the kinds while no manager serves the webhooks. If the configurations are applied already, nothing changes.
// In particular, addresses and CA bundles that a manager has written are kept.
func InstallWebhooks(ctx context.Context, c client.Client) error {
	return each("webhook", func(raw []byte) error { return install.Manifest(ctx, c, raw) })
}

// each calls do with each manifest in the list of a folder's Kustomization. A Kustomization does not list the CRDs of
// kinds that are not built.
func each(dir string, do func(raw []byte) error) error {
	var list struct {
		Resources []string `json:"resources"`
	}
	raw, err := manifests.ReadFile(dir + "/Kustomization")
	if err == nil {
		err = yaml.Unmarshal(raw, &list)
	}
	if err != nil {
		return fmt.Errorf("reading the list of %s: %w", dir, err)
	}
	for _, file := range list.Resources {
		raw, err := manifests.ReadFile(dir + "/" + file)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if err := do(raw); err != nil {
			return err
		}
	}
	return nil
}
