// Package rotator answers "who issues, serves and publishes the certificate of my webhook server?": a [Rotator] does. A
// Rotator keeps the certificate and its authority in a Secret, serves the certificate from memory, and writes the CA
// bundle into the objects that tell API servers whom to trust. Package webhookcert makes the decisions.
//
// Every replica runs a Rotator, without leader election and before the manager's caches. A later start is impossible: a
// cache of objects needing conversion waits for the conversion webhook, and the webhook needs its certificate.
//
// # With a manager
//
//	c, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme})
//	certs, err := rotator.New(rotator.Options{
//		Client:     c,
//		Config:     webhookcert.Config{DNSNames: []string{"webhooks.system.svc"}},
//		Secret:     client.ObjectKey{Namespace: "system", Name: "webhook-certs"},
//		Mutating:   []string{"things-defaults"},
//		Validating: []string{"things-rules"},
//		CRDs:       []string{"things.example.com"},
//		Address:    "localhost:9443",
//	})
//	server := certs.Server(webhook.NewServer(webhook.Options{Port: 9443, TLSOpts: []func(*tls.Config){certs.TLS}}))
//	server.Register("/validate", handler)
//	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{Scheme: scheme, WebhookServer: server})
//	_ = mgr.GetWebhookServer() // a manager starts the server only if somebody has asked for it
//	err = mgr.AddReadyzCheck("webhooks", certs.Check)
//	err = mgr.Start(ctx)
//
// A manager does not pass its logger to a webhook server: wrap the server's Start with a Start that puts a logger into
// the context, or the Rotator logs nothing. /readyz does not show why the check fails; log the error of Ready.
//
// # How it works
//
// The Rotator watches the configured objects and no more, each by a field selector on the object's name. The Rotator
// writes the Secret by compare-and-swap, so replicas may race. Webhook configurations and CustomResourceDefinitions get
// a JSON patch that tests resourceVersion and entry name, and only where something differs. The Rotator does not use
// server-side apply: server-side apply would make the Rotator a co-owner of list entries, and the entries' owner could
// no longer remove them.
//
// Before such a patch the Rotator reads the Secret from the API server, after the object. So a replica with an old view
// takes no authority out of a bundle. Before the next stage of a rotation the Rotator reads the objects from the API
// server too, because a watch may have died without an error.
//
// The Rotator repairs an object changed by somebody else at once, a few times. If the changes go on, the Rotator
// repairs the object at a bounded rate and reports RepairThrottled once. The Rotator reports a missing object once and
// watches for it. The package never exits the process.
//
// # Readiness
//
// A server becomes ready when it serves a certificate and every existing object holds the bundle. From then on the
// server is ready while serving. If readiness went on to depend on each object, somebody who keeps resetting a single
// object would take all replicas out of service, and with the replicas the webhooks of all remaining objects.
// Everything an object lacks goes to the log, to [Observer] and to [Rotator.Faults].
//
// # RBAC
//
//	secrets                                             get, list, watch, update   by name, in one namespace
//	secrets                                             create                     in that namespace; a name cannot be given
//	mutating-, validatingwebhookconfigurations          get, list, watch, patch    by name
//	customresourcedefinitions                           get, list, watch, patch    by name
//
// If somebody else writes Secret and objects (webhookcert.Config.External), get, list and watch are enough.
package rotator

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

const (
	// ObjectMissing means that an object to inject into does not exist. It is watched for.
	ObjectMissing reason.Code = "ObjectMissing"
	// NamespaceMissing means that the namespace of the Secret does not exist, so that the Secret cannot be created.
	NamespaceMissing reason.Code = "NamespaceMissing"
	// RepairThrottled means that somebody keeps changing an object, and that it is repaired less often than it is changed.
	RepairThrottled reason.Code = "RepairThrottled"
	// NotServing means that a server cannot be ready: there is no certificate, an object has never been read, or a
	// handshake with the published bundle fails.
	NotServing reason.Code = "NotServing"
)

// Observer receives events, for metrics and logs. Only a single goroutine at a time calls an Observer. Methods must not
// block.
type Observer interface {
	// Serving is called with each new certificate or bundle. The Facts inside are for an expiry metric.
	Serving(*webhookcert.Material)
	// Wrote is called after each write, with the reason for the write.
	Wrote(object reason.Object, why reason.Reason)
	// Injected is called for each object after the first comparison, and whenever the object begins or ceases to lack the
	// wanted bundle or address. A fault repaired at once is not reported. The reason says what the object lacks. The Code
	// is empty if nothing is lacking, or if the object does not exist. A CustomResourceDefinition without conversion
	// cannot hold a bundle (webhookcert.NoConversionWebhook): a client writing an older version of the CRD's objects then
	// loses all fields unknown to the older version.
	Injected(object reason.Object, lacks reason.Reason)
	// Waiting is called once for each awaited condition, until the condition changes.
	Waiting(object reason.Object, why reason.Reason)
	// Failed is called for each failed request, except after a conflict. Files that cannot be written are reported with
	// kind Directory and the path as name.
	Failed(object reason.Object, err error)
}

// Options of a Rotator. Client, Config and Secret are required.
type Options struct {
	// Client reads from the API server, not from a cache. The Client's scheme needs core/v1 and
	// admissionregistration.k8s.io/v1.
	Client client.WithWatch
	// Config is completed by New. With Config.External the Rotator writes nothing: another writer, such as cert-manager,
	// writes Secret and objects, and Ready tells whether both are written.
	Config webhookcert.Config
	// Secret is the Secret's name. A missing Secret is created with the Labels and type Opaque.
	Secret client.ObjectKey
	Labels map[string]string
	// Mutating, Validating and CRDs name the objects to get the bundle. Without any name, SecretAlone or a Directory is
	// required: nobody would trust the certificate otherwise.
	Mutating, Validating, CRDs []string
	// SecretAlone says that clients take the bundle from the Secret, and no object gets the bundle.
	SecretAlone bool
	// Host and Port, if Host is set, replace the Service in the objects by a URL. Host is a lower-case DNS name or an IP
	// address (webhookcert.CheckHost), and among the names in Config.
	Host string
	Port int
	// Directory, if set, gets bundle, certificate and key as files with the names of Config.Keys, for servers that need
	// files. The files are links through a common link to a data directory. The Rotator replaces the common link, so all
	// files change at once. A reader opening certificate and key one after the other can still see a change in between.
	// Such a reader should resolve the link ..data once and read both files there. New directories get mode 0700, and
	// files 0600. An existing directory keeps its mode and its unrelated files. Each process needs its own Directory.
	Directory string
	// Address is the address of this process's server for Ready, such as "localhost:9443". Empty leaves the handshake out.
	Address string
	// Burst is how many times in a row the Rotator writes an object at once. Interval is the time between later writes.
	// The defaults are 5 and 10 seconds.
	Burst    int
	Interval time.Duration
	// Timeout bounds each request; the default is 10 seconds.
	Timeout time.Duration
	// Clock defaults to the real clock. Observer may be nil.
	Clock    clock.WithTicker
	Observer Observer
}

// Rotator issues, serves and publishes certificates. Make a Rotator with New; the zero value only returns errors. Start
// may be called once; all remaining methods are safe for concurrent use.
type Rotator struct {
	options Options
	policy  *webhookcert.Policy
	config  webhookcert.Config // the policy's

	certificate atomic.Pointer[webhookcert.Material]
	status      atomic.Pointer[status]
	serving     chan struct{} // closed with the first certificate
	initialised chan struct{} // closed when everything holds for the first time
	started     atomic.Bool

	// The rest belongs to the goroutine of Start.
	secret      *object
	objects     []*object
	material    *webhookcert.Material
	readVersion string // resourceVersion of the last adopted Secret
	adopted     bool
	filesDue    map[string][]byte // not on disk yet
	files       attempts
	seen        webhookcert.Observation
	held        bool // everything has held once
	once        struct{ serving, initialised sync.Once }
}

// status passes the state from the rotator's goroutine to the readiness check.
type status struct {
	faults      reason.List
	initialised bool // everything has held once; the faults no longer count
}

// New checks the options, and fills in the defaults. The error names the option and the value. New makes no request.
func New(options Options) (*Rotator, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	policy, err := options.Config.Complete()
	if err != nil {
		return nil, err
	}
	config := policy.Config()
	if err := options.checkHost(config); err != nil {
		return nil, err
	}
	options.complete()
	r := &Rotator{
		options: options, policy: policy, config: config,
		serving: make(chan struct{}), initialised: make(chan struct{}),
	}
	r.files.ref = reason.Object{Kind: "Directory", Name: options.Directory}
	r.secret = newObject(secretKind(), options.Secret, &options)
	for _, g := range []struct {
		kind  kind
		names []string
	}{{mutatingKind(), options.Mutating}, {validatingKind(), options.Validating}, {conversionKind(), options.CRDs}} {
		for _, name := range g.names {
			r.objects = append(r.objects, newObject(g.kind, client.ObjectKey{Name: name}, &options))
		}
	}
	return r, nil
}

// check finds impossible names and names given twice.
func (o *Options) check() error {
	if o.Client == nil || o.Secret.Name == "" || o.Secret.Namespace == "" {
		return fmt.Errorf("options: Client, Secret.Namespace and Secret.Name are required; Secret is %q", o.Secret)
	}
	if problems := slices.Concat(validation.IsDNS1123Subdomain(o.Secret.Name), validation.IsDNS1123Label(o.Secret.Namespace)); len(problems) > 0 {
		return fmt.Errorf("options: Secret %q: %s", o.Secret, strings.Join(problems, "; "))
	}
	if _, _, err := net.SplitHostPort(o.Address); o.Address != "" && err != nil {
		return fmt.Errorf("options: Address %q, such as localhost:9443: %w", o.Address, err)
	}
	switch named := len(o.Mutating) + len(o.Validating) + len(o.CRDs); {
	case named == 0 && o.Directory == "" && !o.SecretAlone:
		return errors.New("options: none of Mutating, Validating and CRDs names an object to get the bundle, no Directory gets it, and SecretAlone is not set")
	case named > 0 && o.SecretAlone:
		return errors.New("options: SecretAlone is set, and objects to get the bundle are named")
	}
	for _, list := range []struct {
		field string
		names []string
	}{{"Mutating", o.Mutating}, {"Validating", o.Validating}, {"CRDs", o.CRDs}} {
		for i, name := range list.names {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				return fmt.Errorf("options: %s: %q: %s", list.field, name, strings.Join(problems, "; "))
			}
			if slices.Contains(list.names[:i], name) {
				return fmt.Errorf("options: %s: %q is named twice", list.field, name)
			}
		}
	}
	return nil
}

// checkHost finds an address not covered by the certificates: the server would look ready, and every call would fail.
func (o *Options) checkHost(config webhookcert.Config) error {
	if o.Host == "" {
		return nil
	}
	if o.Port < 1 || o.Port > 65535 {
		return fmt.Errorf("options: Port %d is not between 1 and 65535, and Host is set", o.Port)
	}
	if err := webhookcert.CheckHost(o.Host); err != nil {
		return fmt.Errorf("options: Host: %w", err)
	}
	leaf := &x509.Certificate{DNSNames: config.DNSNames}
	for _, ip := range config.IPs {
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(ip))
	}
	if err := leaf.VerifyHostname(o.Host); err != nil {
		return fmt.Errorf("options: Host %q is not among config.DNSNames and config.IPs, which certificates are made for: %w", o.Host, err)
	}
	return nil
}

func (o *Options) complete() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Burst <= 0 {
		o.Burst = 5
	}
	if o.Interval <= 0 {
		o.Interval = 10 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
}

// NeedLeaderElection is false: every replica serves, and any may write.
func (r *Rotator) NeedLeaderElection() bool { return false }

// Initialised returns a channel. The channel is closed when for the first time the server has a certificate and every
// existing object holds the bundle. The channel is nil if New did not make the Rotator.
func (r *Rotator) Initialised() <-chan struct{} { return r.initialised }

// Start issues, serves and publishes until the context ends. Start returns an error only if called before, or if New
// did not make the Rotator. A failed request is tried again. Start logs to the context's logger.
func (r *Rotator) Start(ctx context.Context) error {
	if r.policy == nil {
		return errors.New("rotator: the Rotator was not made by New")
	}
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("rotator: it has been started before")
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	news := newInbox()
	for _, o := range append([]*object{r.secret}, r.objects...) {
		group.Go(func() { r.follow(ctx, o, news) })
	}
	for ctx.Err() == nil {
		r.await(ctx, r.reconcile(ctx), news)
	}
	return nil
}

// tick is the longest time without a look. tick bounds the clock jumps that can stay hidden.
func (r *Rotator) tick() time.Duration {
	return min(time.Minute, max(r.config.Overlap/10, time.Second))
}

// await waits for news or for the time to look again, and takes in all news.
func (r *Rotator) await(ctx context.Context, at time.Time, news *inbox) {
	now := r.options.Clock.Now()
	wait := r.tick()
	if !at.IsZero() {
		wait = min(wait, max(at.Sub(now), 0))
	}
	timer := r.options.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C():
	case <-news.filled:
	}
	r.checkClock(ctx, now, wait)
	for _, e := range news.empty() {
		r.take(ctx, e)
	}
}

// checkClock finds out whether the clock has jumped: it must not go back, nor ahead by more than the wait.
func (r *Rotator) checkClock(ctx context.Context, before time.Time, wait time.Duration) {
	now := r.options.Clock.Now()
	moved := now.Sub(before.Round(0)) // by the wall clock, as for certificates
	slack := r.tick()
	if moved >= -slack && moved <= wait+slack {
		return
	}
	log.FromContext(ctx).Info("The clock has jumped; waiting for it to settle", "moved", moved.String(), "expectedAtMost", wait.String())
	r.seen.ClockJumped = now
	if r.seen.Disturbed.After(now) {
		r.seen.Disturbed = now
	}
	if r.seen.DisturbedSince.After(now) {
		r.seen.DisturbedSince = now
	}
	r.files.clockJumped(now)
	r.secret.clockJumped(now)
	for _, o := range r.objects {
		o.clockJumped(now)
	}
}

// reconcile does all work possible now, and returns the time to look again. Zero means: look after the next event.
func (r *Rotator) reconcile(ctx context.Context) time.Time {
	var next time.Time
	if !r.secret.synced {
		return next
	}
	r.adopt(ctx)
	for range 4 { // announce, inject, stamp, and one more
		next = time.Time{}
		wrote := r.reconcileSecret(ctx, &next)
		wrote = r.injectAll(ctx, &next) || wrote
		if !wrote {
			break
		}
		next = r.options.Clock.Now()
	}
	sooner(&next, r.files.retryAt)
	r.report()
	return next
}

// adopt serves the Secret's certificate. If the Secret is unusable, adopt keeps the present certificate.
func (r *Rotator) adopt(ctx context.Context) {
	version := ""
	if r.secret.live != nil {
		version = r.secret.live.GetResourceVersion()
	}
	if r.adopted && version == r.readVersion {
		r.writeFiles(ctx)
		return
	}
	r.adopted, r.readVersion = true, version
	material, err := r.policy.Read(r.data())
	if err != nil {
		// Without External the decision has the same reason, and repairs the Secret.
		if r.config.External {
			r.say(ctx, r.secret, asReason(err))
		}
		return
	}
	r.settled(r.secret)
	r.material = material
	r.certificate.Store(material)
	r.once.serving.Do(func() { close(r.serving) })
	r.filesDue = r.filesWanted()
	r.writeFiles(ctx)
	if r.options.Observer != nil {
		r.options.Observer.Serving(material)
	}
}

func (r *Rotator) data() map[string][]byte {
	if secret, ok := r.secret.live.(*corev1.Secret); ok {
		return secret.Data
	}
	return nil
}

// report passes the present state to the readiness check.
func (r *Rotator) report() {
	var faults reason.List
	synced := r.secret.synced
	if r.material == nil {
		faults = append(faults, reason.Reason{Code: NotServing, Object: r.secret.ref, Detail: "there is no certificate yet"})
	}
	for _, o := range r.objects {
		synced = synced && o.synced
		switch {
		case !o.synced:
			faults = append(faults, reason.Reason{Code: NotServing, Object: o.ref, Detail: "it has not been read yet"})
		case o.live != nil && o.differs != nil:
			faults = append(faults, *o.differs)
		}
		r.tellInjected(o)
	}
	r.held = r.held || synced && len(faults) == 0
	r.status.Store(&status{faults: faults, initialised: r.held}) // before any observer sees initialised
	if r.held {
		r.once.initialised.Do(func() { close(r.initialised) })
	}
}

// tellInjected tells the observer about a change in an object's fault.
func (r *Rotator) tellInjected(o *object) {
	if !o.synced || r.material == nil || r.options.Observer == nil {
		return
	}
	var lacks reason.Reason
	switch {
	case o.live == nil:
	case o.differs != nil:
		lacks = *o.differs
	default:
		lacks = o.unable
	}
	if o.lacks != nil && o.lacks.Code == lacks.Code && o.lacks.Path == lacks.Path {
		return
	}
	o.lacks = &lacks
	r.options.Observer.Injected(o.ref, lacks)
}

// say tells log and observer something once, until the next different message about the object.
func (r *Rotator) say(ctx context.Context, o *object, why reason.Reason) {
	if o.said.Code == why.Code && o.said.Path == why.Path {
		return
	}
	o.said = why
	log.FromContext(ctx).Info("Waiting", "object", o.ref.String(), "reason", why.String())
	if r.options.Observer != nil {
		r.options.Observer.Waiting(o.ref, why)
	}
}

// wrote notes a write that has succeeded.
func (r *Rotator) wrote(ctx context.Context, o *object, why reason.Reason) {
	o.succeeded()
	log.FromContext(ctx).Info("Wrote", "object", o.ref.String(), "reason", why.String())
	if r.options.Observer != nil {
		r.options.Observer.Wrote(o.ref, why)
	}
}

// fail notes a failed attempt, and puts the next attempt off.
func (r *Rotator) fail(ctx context.Context, at *attempts, err error) {
	at.retryAt = r.options.Clock.Now().Add(min(time.Second<<min(at.failures, 6), time.Minute))
	at.failures++
	r.complain(ctx, at, err)
}

// complain tells the observer of each error, and the log of each new one.
func (r *Rotator) complain(ctx context.Context, at *attempts, err error) {
	if ctx.Err() != nil {
		return // the end is no failure
	}
	if text := err.Error(); text != at.failed {
		at.failed = text
		log.FromContext(ctx).Error(err, "Will try again", "object", at.ref.String())
	}
	if r.options.Observer != nil {
		r.options.Observer.Failed(at.ref, err)
	}
}

func asReason(err error) reason.Reason {
	if why := reason.From(err); len(why) > 0 {
		return why[0]
	}
	return reason.Reason{Code: NotServing, Detail: err.Error()}
}
