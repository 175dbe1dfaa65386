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
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// These are the names of the objects by which the webhooks are registered at the API server.
const (
	mutatingConfiguration   = "kruise-mutating-webhook-configuration"
	validatingConfiguration = "kruise-validating-webhook-configuration"
)

// secretKeys returns the keys of the Secret: the keys of OpenKruise, and keys for the second CA during a rotation.
// OpenKruise does not know the keys for the second CA, and keeps their values.
func secretKeys() webhookcert.Keys {
	return webhookcert.Keys{
		CACert: []string{"ca-cert.pem"}, CAKey: []string{"ca-key.pem"},
		Cert: []string{"cert.pem", "tls.crt"}, Key: []string{"key.pem", "tls.key"},
		NextCACert: "next-ca-cert.pem", NextCAKey: "next-ca-key.pem", OldCACerts: "old-ca-certs.pem",
		State: "rotation.json", Rotate: "rotate",
	}
}

// newRotator returns the rotator that makes and serves the certificates, with the names from the environment.
func newRotator(c client.WithWatch, w Webhooks, crds []string, external bool, observer rotator.Observer) (*rotator.Rotator, error) {
	config := webhookcert.Config{
		// The CA key is an RSA key, so that users can return to OpenKruise, which requires RSA. OpenKruise accepts a
		// serving key of any algorithm.
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
		config.DNSNames = append(config.DNSNames, "localhost") // OpenKruise's readiness check uses this name
	}
	if external {
		config.Keys = webhookcert.TLSSecretKeys() // cert-manager uses these keys
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

// newWebhooks returns the server of admission and conversion, with rotated certificates and a check that proves that
// the webhooks serve.
func newWebhooks(c client.WithWatch, options Options, pods *podWebhook, log logr.Logger) (*webhooks, error) {
	w := *options.Webhooks
	observer, err := newCertificateMetrics(options.Registry)
	if err != nil {
		return nil, err
	}
	certs, err := newRotator(c, w, kind.ConvertedCRDs(options.Kinds), options.Gates[apps.GateExternalCerts], observer)
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
	endpoints := append(kind.Endpoints(options.Kinds, served), admission.Protection(served), admission.Agents(served))
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

// webhooks contains the server of admission and conversion, the check that the webhooks serve, the metrics of
// failures that clients do not notice, and the options of the handlers.
type webhooks struct {
	server  *deferred
	ready   func(context.Context) error
	faults  func() error
	options admission.Options
}

// noWebhooks returns the webhooks of a manager that serves none.
func noWebhooks() *webhooks {
	return &webhooks{ready: always, faults: func() error { return nil }}
}

// deferred is a webhook server that starts only after a condition is met. A manager does not pass its logger to
// servers, so deferred has a logger of its own.
type deferred struct {
	webhook.Server

	log   logr.Logger
	after func(context.Context) error
	// failed is called with the error of a server that has ended too early. controller-runtime's manager handles such
	// an error only after all caches are filled, and without the conversion webhooks no cache can be filled. failed
	// must be set before the manager starts.
	failed context.CancelCauseFunc
}

// Start serves until ctx ends.
func (d *deferred) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, d.log)
	if err := d.after(ctx); err != nil {
		return nil //nolint:nilerr // The only possible error is the end of the context.
	}
	err := d.Server.Start(ctx)
	if err != nil {
		d.failed(err)
	}
	return err
}

// webhookServer returns a server that serves the handlers with the certificates of certs.
func webhookServer(certs *rotator.Rotator, w Webhooks, closed func(), handlers map[string]http.Handler) webhook.Server {
	server := newBoundedServer(listenHost(w.Host), orDefault(w.ListenPort, w.Port), maxConnections, certs.TLS, closed)
	for path, handler := range handlers {
		server.Register(path, handler)
	}
	return server
}

// listenHost returns the address to listen on: the loopback address if the host in the webhook configurations is a
// loopback name or address, otherwise all addresses.
func listenHost(called string) string {
	if ip := net.ParseIP(called); called == "localhost" || (ip != nil && ip.IsLoopback()) {
		return called
	}
	return ""
}

// ensureNamespace creates the namespace of the Secret and the Lease, for clusters where no installer has created the
// namespace. Because of the label, the API server does not call the webhooks for the manager's own Pods.
func ensureNamespace(ctx context.Context, c client.Client, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"control-plane": "openkruise"}}}
	err := c.Get(ctx, client.ObjectKeyFromObject(namespace), &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, namespace)
	}
	if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
		return nil // an installer creates the namespace, and later requests report a missing namespace
	}
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}
