package install_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// warnings collects the warnings of an API server.
type warnings struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader is called for each warning.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.text, "\n")
}

// TestLeftoverWebhooksAreAllowedWithAWarning: requests are admitted at the paths of webhooks that another manager has
// left in the webhook configurations, and a warning tells the user that a check is missing.
func TestLeftoverWebhooksAreAllowedWithAWarning(t *testing.T) {
	c := fresh(t)
	c.apply("-k", "examples/config/default")
	registry := prometheus.NewRegistry()
	var port int
	runManager(t, c.asManager(), func(o *manager.Options) { o.Registry, port = registry, o.Webhooks.Port })
	ns := env.Namespace(t)
	leftover := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "leftover.kb.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: ptr.To("https://" + net.JoinHostPort("localhost", strconv.Itoa(port)) + "/validate-left-over"), CABundle: c.webhookCA(),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
	if err := c.Create(t.Context(), leftover); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), leftover) })

	heard := &warnings{}
	config := rest.CopyConfig(env.Start(t).Config())
	config.WarningHandler = heard
	asker, err := manager.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "a-"}}
		if err := asker.Create(ctx, cm); err != nil {
			return err
		}
		if !strings.Contains(heard.String(), "/validate-left-over") {
			return fmt.Errorf("no warning names the path; heard %q", heard.String())
		}
		if n := counted(t, registry, "kruise_webhook_unknown_path_total", "/validate-left-over"); n == 0 {
			return errors.New("not counted")
		}
		return nil
	})
}

// webhookCA returns the CA of the manager's certificates, once the manager has created them.
func (c *cluster) webhookCA() []byte {
	c.t.Helper()
	secret := &corev1.Secret{}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kruise-webhook-certs"}, secret); err != nil {
			return err
		}
		if len(secret.Data["ca-cert.pem"]) == 0 {
			return errors.New("no authority yet")
		}
		return nil
	})
	return secret.Data["ca-cert.pem"]
}

// counted returns the value of a counter for a value of its label.
func counted(t testing.TB, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values := []string{}
			for _, pair := range metric.GetLabel() {
				values = append(values, pair.GetValue())
			}
			if family.GetName() == name && slices.Contains(values, label) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}
