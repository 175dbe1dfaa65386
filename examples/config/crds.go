// Package config holds the manifests that install the reference controllers, for commands and tests that need them
// without a checkout.
package config

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

//go:embed crd/*.yaml webhook/*.yaml
var manifests embed.FS

// fieldOwner owns what is applied here.
const fieldOwner = "workloadkit-install"

// InstallCRDs applies the CRDs of the reference controllers and waits until the API server serves the stored version of each.
// The other versions need the conversion webhook of a running manager. Applying CRDs again changes nothing, and the address at
// which a manager outside the cluster serves conversion stays.
func InstallCRDs(ctx context.Context, c client.Client) error {
	return eachManifest("crd", func(manifest []byte) error { return InstallCRD(ctx, c, manifest) })
}

// InstallWebhooks applies the webhook configurations of the reference controllers. From then on the API server refuses writes of
// their kinds until a manager serves the webhooks. Applying them again changes nothing, and addresses and certificate
// authorities that a manager put there stay.
func InstallWebhooks(ctx context.Context, c client.Client) error {
	return eachManifest("webhook", func(manifest []byte) error {
		configuration, err := parse(manifest)
		if err != nil {
			return err
		}
		return apply(ctx, c, configuration)
	})
}

func eachManifest(dir string, install func(manifest []byte) error) error {
	files, err := manifests.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the manifests: %w", err)
	}
	for _, file := range files {
		raw, err := manifests.ReadFile(dir + "/" + file.Name())
		if err != nil {
			return fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		if err := install(raw); err != nil {
			return err
		}
	}
	return nil
}

// InstallCRD applies one CRD from its manifest in YAML or JSON and waits until objects of its kind can be read in the stored
// version.
func InstallCRD(ctx context.Context, c client.Client, manifest []byte) error {
	crd, err := parse(manifest)
	if err != nil {
		return err
	}
	if err := apply(ctx, c, crd); err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if stored, _ := version["storage"].(bool); !stored {
			continue
		}
		probe := &unstructured.Unstructured{}
		probe.SetAPIVersion(fmt.Sprintf("%s/%v", group, version["name"]))
		probe.SetKind(kind)
		key := client.ObjectKey{Name: "no-such-object"}
		if scope == "Namespaced" {
			key.Namespace = metav1.NamespaceDefault
		}
		if err := untilServed(ctx, c, key, probe); err != nil {
			return fmt.Errorf("waiting for CRD %s to be served: %w", crd.GetName(), err)
		}
	}
	return nil
}

func parse(manifest []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &object.Object); err != nil {
		return nil, fmt.Errorf("parsing a manifest: %w", err)
	}
	return object, nil
}

// apply applies an object as the only owner of what its manifest says.
func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	keepURLs(object, live)
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// keepURLs leaves out the Service of each client config that has a URL by now: a manager outside the cluster has put it there,
// and the two exclude each other.
func keepURLs(object, live *unstructured.Unstructured) {
	urls := map[string]bool{}
	for name, config := range clientConfigs(live) {
		_, urls[name] = config["url"]
	}
	for name, config := range clientConfigs(object) {
		if urls[name] {
			delete(config, "service")
		}
	}
}

// clientConfigs returns those of a CRD or webhook configuration, by the names of the webhooks; they share memory with it.
func clientConfigs(object *unstructured.Unstructured) map[string]map[string]any {
	configs := map[string]map[string]any{}
	if config, ok := dig(object.Object, "spec", "conversion", "webhook", "clientConfig"); ok {
		configs[""] = config
	}
	webhooks, _ := object.Object["webhooks"].([]any)
	for _, item := range webhooks {
		webhook, _ := item.(map[string]any)
		name, _ := webhook["name"].(string)
		if config, ok := dig(webhook, "clientConfig"); ok {
			configs[name] = config
		}
	}
	return configs
}

func dig(object map[string]any, path ...string) (map[string]any, bool) {
	for _, key := range path {
		object, _ = object[key].(map[string]any)
	}
	return object, object != nil
}

// untilServed waits for discovery and the storage of a new CRD, which follow a moment after it was accepted. It asks for an
// object that is not there: a list would need the conversion webhook where objects are stored in another version.
func untilServed(ctx context.Context, c client.Client, key client.ObjectKey, probe client.Object) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, key, probe)
		switch {
		case meta.IsNoMatchError(err), apierrors.IsTooManyRequests(err), apierrors.IsNotFound(err) && !isMissingObject(err):
			return false, nil
		case apierrors.IsNotFound(err):
			return true, nil
		}
		return err == nil, err
	})
}

// isMissingObject tells that there is no such object from that there is no such path.
func isMissingObject(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
