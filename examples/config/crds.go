// Package config holds the manifests that install the reference controllers, for commands and tests that need them
// without a checkout.
package config

import (
	"context"
	"embed"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

//go:embed crd/*.yaml
var crds embed.FS

// fieldOwner owns what is applied here.
const fieldOwner = "workloadkit-install"

// InstallCRDs applies the CRDs of the reference controllers and waits until the API server serves each. Applying them again
// changes nothing.
func InstallCRDs(ctx context.Context, c client.Client) error {
	files, err := crds.ReadDir("crd")
	if err != nil {
		return fmt.Errorf("reading the CRDs: %w", err)
	}
	for _, file := range files {
		raw, err := crds.ReadFile("crd/" + file.Name())
		if err != nil {
			return fmt.Errorf("reading CRD %s: %w", file.Name(), err)
		}
		if err := InstallCRD(ctx, c, raw); err != nil {
			return err
		}
	}
	return nil
}

// InstallCRD applies one CRD from its manifest in YAML or JSON and waits until objects of its kind can be listed in each
// served version.
func InstallCRD(ctx context.Context, c client.Client, manifest []byte) error {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &crd.Object); err != nil {
		return fmt.Errorf("parsing a CRD: %w", err)
	}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd.DeepCopy()), client.FieldOwner(fieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying CRD %s: %w", crd.GetName(), err)
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(fmt.Sprintf("%s/%v", group, version["name"]))
		list.SetKind(kind + "List")
		if err := untilListed(ctx, c, list); err != nil {
			return fmt.Errorf("waiting for CRD %s to be served: %w", crd.GetName(), err)
		}
	}
	return nil
}

// untilListed waits for discovery and the storage of a new CRD, which follow a moment after it was accepted.
func untilListed(ctx context.Context, c client.Client, list *unstructured.UnstructuredList) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.List(ctx, list, client.Limit(1))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	})
}
