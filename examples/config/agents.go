package config

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/testing/install"
)

// InstallAgentRights applies the roles of node agents, and the policies that restrict each agent to its own Node. No
// agent is installed. The namespace kruise-system must exist.
func InstallAgentRights(ctx context.Context, c client.Client) error {
	return each("daemon", func(raw []byte) error {
		for document := range bytes.SplitSeq(raw, []byte("\n---\n")) {
			if bytes.Contains(document, []byte("\nkind: DaemonSet\n")) {
				continue
			}
			if err := install.Manifest(ctx, c, document); err != nil {
				return err
			}
		}
		return nil
	})
}

// InstallPullSecretRights applies the rights for copies of pull secrets, with their namespace. The namespace kruise-system
// must exist.
func InstallPullSecretRights(ctx context.Context, c client.Client) error {
	return each("imagepulljob", func(raw []byte) error { return install.Manifest(ctx, c, raw) })
}

// InstallAgentWebhook makes the manager's webhook restrict node agents, and deletes the policies. The webhook
// configurations must be installed, and must not contain this webhook yet.
func InstallAgentWebhook(ctx context.Context, c client.Client) error {
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		for _, name := range []string{"kruise-daemon-requests", "kruise-daemon-pods", "kruise-daemon-events", "kruise-daemon-images"} {
			policy := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind}}
			policy.Name = name
			if err := c.Delete(ctx, policy); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("removing %s %s: %w", kind, name, err)
			}
		}
	}
	configuration, webhooks, err := AgentWebhook()
	if err != nil {
		return err
	}
	var patch []map[string]any
	for _, webhook := range webhooks {
		patch = append(patch, map[string]any{"op": "add", "path": "/webhooks/-", "value": webhook})
	}
	raw, err := json.Marshal(patch)
	if err == nil {
		err = c.Patch(ctx, configuration, client.RawPatch(types.JSONPatchType, raw))
	}
	if err != nil {
		return fmt.Errorf("adding the webhook of agents: %w", err)
	}
	return nil
}

// AgentWebhook returns the webhook that restricts node agents, and a webhook configuration that contains only this
// webhook.
func AgentWebhook() (configuration *unstructured.Unstructured, webhooks []any, err error) {
	configuration = &unstructured.Unstructured{}
	raw, err := manifests.ReadFile("daemon-webhook/webhooks.yaml")
	if err == nil {
		err = yaml.Unmarshal(raw, &configuration.Object)
	}
	if err == nil {
		webhooks, _, err = unstructured.NestedSlice(configuration.Object, "webhooks")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the webhook of agents: %w", err)
	}
	return configuration, webhooks, nil
}
