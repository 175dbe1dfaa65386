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

//go:embed crd webhook daemon daemon-webhook
var manifests embed.FS

// InstallCRDs applies the CRDs of the reference controllers, and waits until the API server serves the stored version
// of each kind. For other versions, a manager must serve the conversion webhook. If the CRDs are applied already,
// nothing changes, and the conversion address of a manager outside the cluster is kept.
func InstallCRDs(ctx context.Context, c client.Client) error {
	return each("crd", func(raw []byte) error { return install.CRD(ctx, c, raw) })
}

// InstallWebhooks applies the webhook configurations of the reference controllers. From then on the API server refuses
// writes of the kinds until a manager serves the webhooks. If the configurations are applied already, nothing changes,
// and addresses and CA bundles written by a manager are kept.
func InstallWebhooks(ctx context.Context, c client.Client) error {
	return each("webhook", func(raw []byte) error { return install.Manifest(ctx, c, raw) })
}

// each reads the manifests that the Kustomization of a folder lists: a CRD whose kind has no row is not installed.
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
