// Package rotator answers "who issues, serves and publishes the certificate of my webhook server?": a [Rotator] does.
// A Rotator stores the certificate and its authority in a Secret, serves the certificate from memory, and writes the
// CA bundle into the objects that tell API servers which authorities to trust. Package webhookcert decides what to
// do.
//
// Every replica runs a Rotator, without leader election, and the Rotator starts before the manager's caches. A later
// start would block for ever: a cache whose objects need conversion waits for the conversion webhook, and the webhook
// needs its certificate.
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
// A manager does not pass its logger to a webhook server: wrap the server's Start so that the context has a logger,
// because the Rotator logs nothing otherwise. /readyz does not show why the check fails; log the error of Ready.
//
// # How it works
//
// The Rotator watches only the configured objects, each by a field selector on the object's name. The Rotator writes
// the Secret by compare-and-swap, so several replicas may write at the same time. The Rotator changes webhook
// configurations and CustomResourceDefinitions by a JSON patch that tests resourceVersion and entry name, and only if a
// field differs. The Rotator does not use server-side apply: the Rotator would become a co-owner of list entries, and
// the owner of the entries could no longer remove the entries.
//
// Before such a patch, the Rotator reads first the object and then the Secret from the API server. So a replica whose
// cached Secret is stale never removes an authority from a CA bundle. Before the next stage of a rotation, the Rotator
// also reads the objects from the API server, because a watch may have broken without an error.
//
// If somebody else changes an object, the Rotator repairs the object at once, but only a few times in a row. If the
// changes continue, the Rotator repairs the object at a limited rate and reports RepairThrottled once. If an object
// does not exist, the Rotator reports this once and waits until the object is created. The package never exits the
// process.
//
// # Readiness
//
// A server becomes ready when it has a certificate and every existing object holds the CA bundle. From then on, the
// server stays ready as long as it answers with the certificate. If readiness still depended on each object, a user
// who overwrites a single object again and again would take all replicas out of service, and with the replicas the
// webhooks of all other objects. If an object lacks the CA bundle, the Rotator logs the fault, notifies the
// [Observer], and lists the fault in [Rotator.Faults].
//
// # RBAC
//
//	secrets                                             get, list, watch, update   by name, in one namespace
//	secrets                                             create                     in that namespace; a name cannot be given
//	mutating-, validatingwebhookconfigurations          get, list, watch, patch    by name
//	customresourcedefinitions                           get, list, watch, patch    by name
//
// If somebody else writes Secret and objects (webhookcert.Config.External), the rights get, list and watch are enough.
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
	// ObjectMissing means that an object that should hold the CA bundle does not exist. The Rotator waits until the
	// object is created.
	ObjectMissing reason.Code = "ObjectMissing"
	// NamespaceMissing means that the namespace of the Secret does not exist, so that the Secret cannot be created.
	NamespaceMissing reason.Code = "NamespaceMissing"
	// RepairThrottled means that somebody changes an object again and again, so that the Rotator repairs the object at
	// a limited rate.
	RepairThrottled reason.Code = "RepairThrottled"
	// NotServing means that a server cannot be ready: there is no certificate, an object was never read successfully,
	// or a TLS handshake with the published CA bundle fails.
	NotServing reason.Code = "NotServing"
)

// Observer is notified of events, for metrics and logs. Only a single goroutine at a time calls an Observer. Methods
// must not block.
type Observer interface {
	// Serving is called with each new certificate or CA bundle. Its Facts can be used for a metric of expiry times.
	Serving(*webhookcert.Material)
	// Wrote is called after each write, with the reason for the write.
	Wrote(object reason.Object, why reason.Reason)
	// Injected is called for each object after the first comparison, and whenever the object begins or ceases to lack
	// the wanted CA bundle or address. Injected is not called for a difference that the Rotator repairs at once.
	// lacks says which value the object lacks. The Code is empty if the object lacks nothing, or if the object does
	// not exist. A CustomResourceDefinition without conversion cannot hold a CA bundle
	// (webhookcert.NoConversionWebhook): if a client then writes objects in an older version, all fields that the
	// older version does not have are lost.
	Injected(object reason.Object, lacks reason.Reason)
	// Waiting is called when the Rotator begins to wait for a condition, and again when the condition changes.
	Waiting(object reason.Object, why reason.Reason)
	// Failed is called for each failed request, except for conflicts. Files that cannot be written are reported with
	// kind Directory and the path as name.
	Failed(object reason.Object, err error)
}

// Options are options of a Rotator. Client, Config and Secret are required.
type Options struct {
	// Client reads from the API server, not from a cache. Its scheme must contain core/v1 and
	// admissionregistration.k8s.io/v1.
	Client client.WithWatch
	// New completes the Config with its defaults. If Config.External is set, the Rotator writes nothing: another
	// writer, such as cert-manager, writes Secret and objects, and Ready reports whether the Secret and the objects
	// are complete.
	Config webhookcert.Config
	// Secret is the namespace and name of the Secret. If the Secret does not exist, the Rotator creates the Secret with
	// the Labels and the type Opaque.
	Secret client.ObjectKey
	Labels map[string]string
	// Mutating, Validating and CRDs name the objects that should hold the CA bundle. If no object is named, SecretAlone
	// or a Directory is required: otherwise no client could trust the certificate.
	Mutating, Validating, CRDs []string
	// SecretAlone says that no object should hold the CA bundle, because clients read the bundle from the Secret.
	SecretAlone bool
	// Host and Port, if Host is set, replace the Service in the objects by a URL. Host is a lower-case DNS name or an
	// IP address (webhookcert.CheckHost), and must be among the names in Config.
	Host string
	Port int
	// Directory, if set, is where CA bundle, certificate and key are written to files with the names of Config.Keys,
	// for servers that need files. Each file is a link through a common link to a data directory. The Rotator replaces
	// the common link, so all files change at once. A reader that opens certificate and key one after the other can
	// still see a change in between. Such a reader should resolve the link ..data once and read both files there. New
	// directories get the mode 0700, and files the mode 0600. An existing directory keeps its mode and its other files.
	// Each process needs its own Directory.
	Directory string
	// Address is the address of the webhook server in this process, to which Ready connects, such as "localhost:9443".
	// If empty, Ready makes no TLS handshake.
	Address string
	// Burst is how many times in a row the Rotator may write an object without a pause. Interval is the time between
	// further writes. The defaults are 5 and 10 seconds.
	Burst    int
	Interval time.Duration
	// Timeout limits the duration of each request; the default is 10 seconds.
	Timeout time.Duration
	// Clock defaults to the real clock. Observer may be nil.
	Clock    clock.WithTicker
	Observer Observer
}

// Rotator issues, serves and publishes certificates. Make a Rotator with New; the zero value only returns errors.
// Start may be called once; all methods except Start are safe for concurrent use.
type Rotator struct {
	options Options
	policy  *webhookcert.Policy
	config  webhookcert.Config // the Config of the policy

	certificate atomic.Pointer[webhookcert.Material]
	status      atomic.Pointer[status]
	serving     chan struct{} // closed when there is a first certificate
	initialised chan struct{} // closed when every object has held the bundle for the first time
	started     atomic.Bool

	// Only the goroutine of Start uses the fields below.
	secret      *object
	objects     []*object
	material    *webhookcert.Material
	readVersion string // resourceVersion of the Secret whose certificate is served
	adopted     bool
	filesDue    map[string][]byte // files not written yet
	files       attempts
	seen        webhookcert.Observation
	held        bool // every object has held the bundle at least once
	once        struct{ serving, initialised sync.Once }
}

// status passes the state from the goroutine of Start to the readiness check.
type status struct {
	faults      reason.List
	initialised bool // every object has held the bundle at least once, so faults of objects no longer affect readiness
}

// New checks the options, and fills in the defaults. The error names the invalid option and its value. New sends no
// request.
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

// check returns an error for invalid names, and for names that occur twice.
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

// checkHost returns an error for an address for which the certificates are not valid: the server would be ready, but
// every call by an API server would fail.
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

// NeedLeaderElection returns false: every replica serves the certificate, and any replica may write.
func (r *Rotator) NeedLeaderElection() bool { return false }

// Initialised returns a channel that is closed when the server has a certificate and every existing object holds the CA
// bundle. The channel is nil if New did not make the Rotator.
func (r *Rotator) Initialised() <-chan struct{} { return r.initialised }

// Start issues, serves and publishes certificates until the context ends. Start returns an error only if called a
// second time, or if New did not make the Rotator. Failed requests are retried. Start logs to the context's logger.
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

// tick is the longest time between two checks of the clock. A jump of the clock by less than tick may go unnoticed.
func (r *Rotator) tick() time.Duration {
	return min(time.Minute, max(r.config.Overlap/10, time.Second))
}

// await waits for events, or until the given time, and processes all events.
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

// checkClock finds out whether the clock has jumped: whether the clock went back, or ahead by more than the wait.
func (r *Rotator) checkClock(ctx context.Context, before time.Time, wait time.Duration) {
	now := r.options.Clock.Now()
	moved := now.Sub(before.Round(0)) // measured by the wall clock, because certificates expire by the wall clock
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

// reconcile does all work that is possible now, and returns when reconcile must be called again. Zero means that the
// next call is necessary only after an event.
func (r *Rotator) reconcile(ctx context.Context) time.Time {
	var next time.Time
	if !r.secret.synced {
		return next
	}
	r.adopt(ctx)
	for range 4 { // at most four steps: announce, inject, stamp, and a further step
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

// adopt serves the Secret's certificate from now on. If the Secret cannot be used, adopt keeps the present certificate.
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
		// If External is not set, the decision about the Secret reports the same fault, and a write repairs the Secret.
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
	// The status must be stored before the channel initialised is closed: a goroutine that has waited for the channel
	// reads the status next.
	r.status.Store(&status{faults: faults, initialised: r.held})
	if r.held {
		r.once.initialised.Do(func() { close(r.initialised) })
	}
}

// tellInjected calls Observer.Injected if the object lacks other values than at the last call.
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

// say logs a message and notifies the observer, unless the last message about the object was the same.
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

// wrote records a successful write.
func (r *Rotator) wrote(ctx context.Context, o *object, why reason.Reason) {
	o.succeeded()
	log.FromContext(ctx).Info("Wrote", "object", o.ref.String(), "reason", why.String())
	if r.options.Observer != nil {
		r.options.Observer.Wrote(o.ref, why)
	}
}

// fail records a failed attempt, and delays the next attempt.
func (r *Rotator) fail(ctx context.Context, at *attempts, err error) {
	at.retryAt = r.options.Clock.Now().Add(min(time.Second<<min(at.failures, 6), time.Minute))
	at.failures++
	r.complain(ctx, at, err)
}

// complain notifies the observer of each error, and logs an error unless the last logged error was the same.
func (r *Rotator) complain(ctx context.Context, at *attempts, err error) {
	if ctx.Err() != nil {
		return // the context has ended, which is no failure
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
