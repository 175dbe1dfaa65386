// Package install answers the question: how do I install my CRDs and webhook configurations on the API server of a
// test? The package applies manifests from memory, without files and kubectl, and waits until the new kinds are
// served.
package install

import (
	"context"
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

// fieldOwner is the owner of applied fields.
const fieldOwner = "workloadkit-install"

// CRD applies a CRD from its manifest in YAML or JSON and waits until objects of its kind can be read in the stored
// version. CRD does not wait for other versions, because these versions need a conversion webhook. A second call with
// the same manifest changes nothing, and keeps a conversion URL that a manager has set since.
func CRD(ctx context.Context, c client.Client, manifest []byte) error {
	crd, err := parse(manifest)
	if err != nil {
		return err
	}
	if crd.GetKind() != "CustomResourceDefinition" {
		return fmt.Errorf("manifest of %s %q: want that of a CustomResourceDefinition", crd.GetKind(), crd.GetName())
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

// Manifest applies an object from its manifest in YAML or JSON, as the only owner of the manifest's fields. A second
// call with the same manifest changes nothing. If a manager has replaced the manifest's Service by a URL since, for
// example in a webhook configuration, the URL is kept.
func Manifest(ctx context.Context, c client.Client, manifest []byte) error {
	object, err := parse(manifest)
	if err != nil {
		return err
	}
	return apply(ctx, c, object)
}

func parse(manifest []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &object.Object); err != nil {
		return nil, fmt.Errorf("parsing a manifest: %w", err)
	}
	if object.GetKind() == "" {
		return nil, errors.New("parsing a manifest: no kind in it, want that of a CustomResourceDefinition or another object")
	}
	return object, nil
}

// apply applies an object as the only owner of its manifest's fields.
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

// keepURLs removes the Service from each client config of object whose live version has a URL: a manager outside the
// cluster has set the URL, and a client config cannot have both.
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

// clientConfigs returns the client configs of a CRD or webhook configuration, by the names of the webhooks; the result
// shares memory with the object.
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

// untilServed waits until the API server serves a new CRD, which happens a moment after the CRD is accepted. The probe
// reads an object that does not exist: a list would need the conversion webhook if objects are stored in an older
// version.
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

// isMissingObject reports whether an error means a missing object, and not a resource that is not served.
func isMissingObject(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
