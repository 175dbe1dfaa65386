package controllertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// Serve runs the manager with its webhooks until the test ends, and returns when the manager is ready. The API server
// calls the webhooks for all Pods, so the control plane must not be shared with other packages.
func Serve(t testing.TB, cp *controlplane.ControlPlane, c client.Client, options manager.Options) {
	t.Helper()
	if err := config.InstallWebhooks(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	webhooks, err := manager.WebhooksFromEnv(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	var health int
	for _, port := range []*int{&webhooks.Port, &health} {
		if *port, err = child.FreePort(t.Context(), "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	webhooks.Host = "localhost"
	options.Webhooks, options.HealthAddress = &webhooks, fmt.Sprintf("127.0.0.1:%d", health)
	Manager(t, cp, options)
	t.Cleanup(func() { // after the manager has ended, no server answers the webhooks
		for _, configuration := range webhookConfigurations() {
			_ = c.Delete(context.WithoutCancel(t.Context()), configuration)
		}
	})
	controlplanetest.Eventually(t, 2*time.Minute, func(ctx context.Context) error { return controlplanetest.Ready(ctx, options.HealthAddress) })
}

// webhookConfigurations returns the two webhook configurations of the manager, with only their names: for mutation and
// for validation.
func webhookConfigurations() (out []client.Object) {
	for kind, name := range map[string]string{"Mutating": "mutating", "Validating": "validating"} {
		u := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind + "WebhookConfiguration"}}
		u.Name = "kruise-" + name + "-webhook-configuration"
		out = append(out, u)
	}
	return out
}
