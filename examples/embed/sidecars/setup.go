package sidecars

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
	"github.com/workloadkit/workloadkit/sidecarcontrol/upgrader"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// Options are the options of the operator.
type Options struct {
	// Namespace is the namespace of the Secret with the certificate, and of the Service sidecars.
	Namespace string
	// Port is the webhook's port. Host, if set, is the IP address at which the API server calls the webhook. Then the
	// Service is not used.
	Host string
	Port int
	// Probes is the address at which /readyz is served.
	Probes string
}

// Run runs the operator until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		return err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	certificates, err := rotator.New(rotator.Options{
		// Host is empty or a single address.
		Config: webhookcert.Config{DNSNames: []string{"sidecars." + o.Namespace + ".svc"}, IPs: strings.Fields(o.Host)},
		Client: c, Secret: client.ObjectKey{Namespace: o.Namespace, Name: "sidecars-webhook"},
		Mutating: []string{"sidecars." + group}, Host: o.Host, Port: o.Port, Address: net.JoinHostPort("localhost", strconv.Itoa(o.Port)),
	})
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: o.Probes,
		WebhookServer: certificates.Server(webhook.NewServer(webhook.Options{Port: o.Port, TLSOpts: []func(*tls.Config){certificates.TLS}})),
	})
	if err != nil {
		return err
	}
	if err := errors.Join(mgr.AddReadyzCheck("webhook", certificates.Check), setup(ctx, mgr)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// setup adds the webhook, which runs on every replica, and the controller, which runs on the leader.
func setup(ctx context.Context, mgr ctrl.Manager) error {
	control, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: keys()})
	if err != nil {
		return err
	}
	sets, err := podwebhook.NewSets(ctx, mgr, &Sidecar{}, setOf)
	if err != nil {
		return err
	}
	step, err := podwebhook.Injection{Control: control, Sets: sets.For}.Mutator("sidecars")
	if err != nil {
		return err
	}
	handler, err := podwebhook.New(step)
	if err != nil {
		return err
	}
	mgr.GetWebhookServer().Register("/mutate-pod", &admission.Webhook{Handler: handler})
	return upgrade(ctx, mgr, control)
}

// upgrade adds the controller that upgrades the containers in running Pods.
func upgrade(ctx context.Context, mgr ctrl.Manager, control *sidecarcontrol.Control) error {
	u, err := upgrader.New(ctx, mgr, &Sidecar{}, upgrader.Config[*Sidecar]{Control: control, Cache: ownercache.Options{Clock: clock.RealClock{}}})
	if err != nil {
		return err
	}
	return u.Cache.AddController(mgr, "sidecars", &reconciler{u}, ownercache.ControllerOptions{})
}
