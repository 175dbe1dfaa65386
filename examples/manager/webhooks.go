package manager

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// Names of the objects that tell the API server about the webhooks.
const (
	mutatingConfiguration   = "kruise-mutating-webhook-configuration"
	validatingConfiguration = "kruise-validating-webhook-configuration"
)

// secretKeys are OpenKruise's, and where this manager keeps the second authority of a rotation, which OpenKruise
// does not know and leaves alone.
func secretKeys() webhookcert.Keys {
	return webhookcert.Keys{
		CACert: []string{"ca-cert.pem"}, CAKey: []string{"ca-key.pem"},
		Cert: []string{"cert.pem", "tls.crt"}, Key: []string{"key.pem", "tls.key"},
		NextCACert: "next-ca-cert.pem", NextCAKey: "next-ca-key.pem", OldCACerts: "old-ca-certs.pem",
		State: "rotation.json", Rotate: "rotate",
	}
}

// newRotator returns what rotates and serves the certificates, by the environment's names.
func newRotator(c client.WithWatch, w Webhooks, crds []string, external bool, observer rotator.Observer) (*rotator.Rotator, error) {
	config := webhookcert.Config{
		// The way back to OpenKruise is to stay open, whose authorities are RSA. Its leaves are, too, but it takes any pair that fits.
		Algorithm: x509.RSA, LeafAlgorithm: x509.ECDSA, CommonName: "webhook-cert-ca", Keys: secretKeys(), Overlap: w.Overlap, External: external,
		LeafRenewBefore: orDefault(w.RenewBefore, 180*24*time.Hour), CARenewBefore: 365 * 24 * time.Hour,
	}
	config.LeafValidity = max(365*24*time.Hour, 2*config.LeafRenewBefore)
	config.CAValidity = max(10*365*24*time.Hour, config.LeafValidity+2*config.CARenewBefore)
	name := w.ServiceName + "." + w.Namespace + ".svc"
	if w.Host != "" {
		name = w.Host
	}
	if net.ParseIP(name) != nil {
		config.IPs = []string{name}
	} else {
		config.DNSNames = []string{name}
	}
	if name != "localhost" {
		config.DNSNames = append(config.DNSNames, "localhost") // OpenKruise's readiness check asks for that
	}
	if external {
		config.Keys = webhookcert.TLSSecretKeys() // as cert-manager calls them
	}
	return rotator.New(rotator.Options{
		Client: c, Config: config,
		Secret:   client.ObjectKey{Namespace: w.Namespace, Name: w.SecretName},
		Mutating: []string{mutatingConfiguration}, Validating: []string{validatingConfiguration}, CRDs: crds,
		Host: w.Host, Port: w.Port, Directory: w.CertDir,
		Address:  net.JoinHostPort("localhost", strconv.Itoa(orDefault(w.ListenPort, w.Port))),
		Observer: observer,
	})
}

// newWebhooks returns the server of admission and conversion, which rotates its certificates, and what proves that it serves.
func newWebhooks(c client.WithWatch, options Options, pods *podWebhook, log logr.Logger) (*webhooks, error) {
	w := *options.Webhooks
	observer, err := newCertificateMetrics(options.Registry)
	if err != nil {
		return nil, err
	}
	certs, err := newRotator(c, w, kinds.ConvertedCRDs(options.Kinds), options.Gates[apps.GateExternalCerts], observer)
	if err != nil {
		return nil, fmt.Errorf("webhook certificates: %w", err)
	}
	reviews, err := newReviewMetrics(options.Registry)
	if err != nil {
		return nil, err
	}
	refusals, err := newRefusals(options.Registry, log)
	if err != nil {
		return nil, err
	}
	if err := refusals.openFor(options); err != nil {
		return nil, err
	}
	served := admission.Options{
		Refused: refusals.Refused,
		Gates:   options.Gates, Reader: c, Client: c, Namespace: w.Namespace, Log: log,
		TemplateUnchecked: reviews.templateUnchecked, UnknownPath: reviews.unknownPath, CutOff: reviews.cutOff,
	}
	endpoints := append(kinds.Endpoints(options.Kinds, served), admission.Protection(served))
	if options.Gates[apps.GatePodWebhook] {
		endpoints = append(endpoints, pods.endpoint())
	}
	handlers := admission.Handlers(served, endpoints...)
	rotated := certs.Server(webhookServer(certs, w, reviews.connectionClosed, handlers))
	after := always
	if w.Host != "" {
		after = func(ctx context.Context) error { return awaitOthers(ctx, c, options.LeaderElection, clock.RealClock{}) }
	}
	return &webhooks{server: &deferred{Server: rotated, log: log, after: after}, ready: certs.Ready, faults: certs.Faults, options: served}, nil
}

// webhooks are the server of admission and conversion, what proves that it serves, what its clients are not told, and the options of what it serves.
type webhooks struct {
	server  *deferred
	ready   func(context.Context) error
	faults  func() error
	options admission.Options
}

// noWebhooks stand for a manager that serves none.
func noWebhooks() *webhooks {
	return &webhooks{ready: always, faults: func() error { return nil }}
}

// deferred is a server that starts after something else, with a logger that managers do not pass on.
type deferred struct {
	webhook.Server

	log   logr.Logger
	after func(context.Context) error
	// failed is told why the server has ended before its time. A manager reads the errors of its servers when the caches are filled, and caches
	// are not filled without conversion. Set it before the manager starts.
	failed context.CancelCauseFunc
}

// Start serves until ctx ends.
func (d *deferred) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, d.log)
	if err := d.after(ctx); err != nil {
		return nil //nolint:nilerr // Only the context's end is an error.
	}
	err := d.Server.Start(ctx)
	if err != nil {
		d.failed(err)
	}
	return err
}

// webhookServer serves the handlers with the certificate of certs.
func webhookServer(certs *rotator.Rotator, w Webhooks, closed func(), handlers map[string]http.Handler) webhook.Server {
	server := newBoundedServer(listenHost(w.Host), orDefault(w.ListenPort, w.Port), maxConnections, certs.TLS, closed)
	for path, handler := range handlers {
		server.Register(path, handler)
	}
	return server
}

// listenHost keeps a server that is called by a name of this machine alone from listening on its other addresses.
func listenHost(called string) string {
	if ip := net.ParseIP(called); called == "localhost" || (ip != nil && ip.IsLoopback()) {
		return called
	}
	return ""
}

// ensureNamespace creates the namespace that Secret and Lease are kept in, for clusters where nothing was installed. Its
// label keeps webhooks for Pods away from the manager's own.
func ensureNamespace(ctx context.Context, c client.Client, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"control-plane": "openkruise"}}}
	err := c.Get(ctx, client.ObjectKeyFromObject(namespace), &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, namespace)
	}
	if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
		return nil // it is the installer's; what is missing will be named by whoever needs it
	}
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}
