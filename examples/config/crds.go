// Package config holds the manifests that install the reference controllers, for commands and tests without a checkout.
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

// InstallCRDs applies the CRDs of the reference controllers and waits until the API server serves the stored version of
// each. Further versions need the conversion webhook of a running manager. Applying CRDs again changes nothing, and
// keeps the address of a manager that serves conversion outside the cluster.
func InstallCRDs(ctx context.Context, c client.Client) error {
	return each("crd", func(raw []byte) error { return install.CRD(ctx, c, raw) })
}

// InstallWebhooks applies the webhook configurations of the reference controllers. From then on the API server refuses
// writes of the kinds until a manager serves the webhooks. Applying the configurations again changes nothing, and keeps
// the addresses and certificate authorities written by a manager.
func InstallWebhooks(ctx context.Context, c client.Client) error {
	return each("webhook", func(raw []byte) error { return install.Manifest(ctx, c, raw) })
}

// each reads the manifests listed by the Kustomization of a folder: a CRD without a row is not installed.
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
