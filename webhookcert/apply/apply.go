// Package apply keeps the certificates of a webhook server, serves them from memory and tells the API server whom to trust.
//
// A [Keeper] is all of it. Every replica runs one, without leader election and before the manager's caches: a cache of
// objects that have to be converted waits for the conversion webhook, and that for its certificate.
//
//	keeper, err := apply.New(apply.Options{Client: c, Config: config, Secret: key, Mutating: []string{"pods.example.com"}, ...})
//	server := webhook.NewServer(webhook.Options{TLSOpts: []func(*tls.Config){keeper.TLS}})
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{WebhookServer: keeper.Server(server)})
//	err = mgr.AddReadyzCheck("webhook", keeper.Check)
//
// # How
//
// The keeper watches exactly the objects it is told about, each by a field selector on its name, and decides with package
// webhookcert. The Secret is written by compare-and-swap, so replicas race safely. Webhook configurations and
// CustomResourceDefinitions get a JSON patch with tests on resourceVersion and entry name, and only where something
// differs; never server-side apply, which would make the keeper co-owner of list entries that their owner wants to drop.
// Before each such patch the Secret is read from the API server, after the object: a replica whose view is old takes no
// authority out of a bundle (package webhookcert says why that matters). Before a rotation's next step the objects are read
// from the API server as well, in case a watch has died silently.
//
// An object that somebody else changes is put right at once, a few times; if the other one goes on, the keeper writes at a
// bounded rate and says so once. An object that does not exist is said once and watched for. Nothing ends the process.
//
// # Readiness
//
// A server becomes ready when it serves a certificate and every object that exists holds the bundle. From then on it is
// ready as long as it serves: were readiness to hang on each object, somebody who fights about one would take all replicas
// out of service, and with them the webhooks of all other objects. What an object lacks goes to log and [Observer].
//
// # With a manager
//
//	server := keeper.Server(webhook.NewServer(webhook.Options{TLSOpts: []func(*tls.Config){keeper.TLS}}))
//	server.Register("/validate", handler)
//	mgr, err := ctrl.NewManager(config, ctrl.Options{WebhookServer: server})
//	// ...
//	_ = mgr.GetWebhookServer() // a manager starts the server only if somebody has asked for it
//	err = mgr.AddReadyzCheck("webhooks", func(r *http.Request) error { return keeper.Ready(r.Context()) })
//
// Managers do not pass their logger to a webhook server: without one in its context the keeper says nothing. /readyz does not
// show why it fails; log what Ready returns.
//
// # RBAC
//
//	secrets                                             get, list, watch, update   by name, in one namespace
//	secrets                                             create                     in that namespace; a name cannot be given
//	mutating-, validatingwebhookconfigurations          get, list, watch, patch    by name
//	customresourcedefinitions                           get, list, watch, patch    by name
//
// With a Secret that somebody else keeps (Options.External) get, list and watch are all that is needed.
package apply

import (
	"context"
	"crypto/rand"
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
	// RepairThrottled means that somebody keeps changing an object, and that it is put right less often than it is changed.
	RepairThrottled reason.Code = "RepairThrottled"
	// NotServing means that a server cannot be ready: there is no certificate, an object has never been read, or a handshake
	// with the published bundle fails.
	NotServing reason.Code = "NotServing"
)

// Observer is told what happens, for metrics and events. It is called from one goroutine at a time and must not block.
type Observer interface {
	// Serving is called with each new certificate or bundle. The facts in it are what an expiry metric shows.
	Serving(*webhookcert.Material)
	// Wrote is called after each write, with what it was for.
	Wrote(object reason.Object, why reason.Reason)
	// Injected is called for each object when it has first been compared, and when it begins or ceases to lack the bundle or
	// the address that it should hold. What is put right at once is not told of. The reason says what it lacks; its Code is
	// empty if that is nothing, as it is for an object that does not exist. A CustomResourceDefinition that does not convert
	// cannot hold a bundle (webhookcert.NoConversionWebhook): whoever writes an older version of its objects then loses what that
	// version does not know.
	Injected(object reason.Object, lacks reason.Reason)
	// Waiting is called once for each thing that is waited for, until that changes.
	Waiting(object reason.Object, why reason.Reason)
	// Failed is called for each request that fails otherwise than by a conflict. Files that cannot be written are told of with
	// kind Directory and the path as name.
	Failed(object reason.Object, err error)
}

// Options of a Keeper. Client, Config and Secret are required.
type Options struct {
	// Client reads from the API server, not from a cache. Its scheme needs core/v1 and admissionregistration.k8s.io/v1.
	Client client.WithWatch
	// Config is completed by New.
	Config webhookcert.Config
	// Secret is created where it does not exist, with these Labels.
	Secret client.ObjectKey
	Labels map[string]string
	// Mutating, Validating and CRDs name the objects to inject into.
	Mutating, Validating, CRDs []string
	// Host and Port, if Host is set, replace the Service in these objects by a URL. Host is a lower-case DNS name or an IP
	// address (webhookcert.CheckHost), and among the names in Config.
	Host string
	Port int
	// External means that somebody else keeps Secret and objects, such as cert-manager. Nothing is written.
	External bool
	// Directory, if set, gets bundle, certificate and key as files with the names of Config.Keys, for servers that cannot do
	// without. See WriteFiles.
	Directory string
	// Address is where Ready finds this process's server, such as "localhost:9443". Empty leaves the handshake out.
	Address string
	// Burst is how many times in a row an object is written at once, Interval how often after that; 5 and 10 seconds are the
	// defaults.
	Burst    int
	Interval time.Duration
	// Timeout bounds each request; the default is 10 seconds.
	Timeout time.Duration
	// Source defaults to crypto/rand, Clock to the real one. Observer may be nil.
	Source   webhookcert.Source
	Clock    clock.WithTicker
	Observer Observer
}

// Keeper keeps certificates. Make one with New. Start may be called once; everything else is safe for concurrent use.
type Keeper struct {
	options Options
	config  *webhookcert.Config

	certificate atomic.Pointer[webhookcert.Material]
	status      atomic.Pointer[status]
	serving     chan struct{} // closed with the first certificate
	initialised chan struct{} // closed when everything holds for the first time
	started     atomic.Bool

	// The rest belongs to the goroutine of Start.
	secret      *object
	objects     []*object
	material    *webhookcert.Material
	readVersion string // of the Secret that was adopted last
	adopted     bool
	filesDue    map[string][]byte // that are not on disk yet
	files       attempts
	seen        webhookcert.Observation
	held        bool // everything has held once
	once        struct{ serving, initialised sync.Once }
}

// status is what the keeper's goroutine tells the readiness check.
type status struct {
	faults      reason.List
	initialised bool // all has held once; the faults no longer count
}

// New checks the options. It makes no request.
func New(options Options) (*Keeper, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	config, err := options.Config.Complete()
	if options.External {
		err = checkExternal(&config)
	}
	if err != nil {
		return nil, err
	}
	if err := options.checkHost(config); err != nil {
		return nil, err
	}
	options.complete()
	k := &Keeper{options: options, config: &config, serving: make(chan struct{}), initialised: make(chan struct{})}
	k.files.ref = reason.Object{Kind: "Directory", Name: options.Directory}
	k.secret = newObject(secretKind(), options.Secret, &options)
	for _, g := range []struct {
		kind  kind
		names []string
	}{{mutatingKind(), options.Mutating}, {validatingKind(), options.Validating}, {conversionKind(), options.CRDs}} {
		for _, name := range g.names {
			k.objects = append(k.objects, newObject(g.kind, client.ObjectKey{Name: name}, &options))
		}
	}
	return k, nil
}

// check finds names that no object can have, or that are named twice.
func (o *Options) check() error {
	if o.Client == nil || o.Secret.Name == "" || o.Secret.Namespace == "" {
		return fmt.Errorf("options: Client, Secret.Namespace and Secret.Name are required; Secret is %q", o.Secret)
	}
	if problems := slices.Concat(validation.IsDNS1123Subdomain(o.Secret.Name), validation.IsDNS1123Label(o.Secret.Namespace)); len(problems) > 0 {
		return fmt.Errorf("options: Secret %q: %s", o.Secret, strings.Join(problems, "; "))
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

// checkHost finds an address that certificates do not hold for: the server would look ready, and every call would fail.
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

// checkExternal demands less than Complete, because most of a configuration is about what the keeper makes itself.
func checkExternal(c *webhookcert.Config) error {
	if len(c.DNSNames)+len(c.IPs) == 0 {
		return errors.New("config: DNSNames and IPs are empty; name what the server is called by")
	}
	for field, names := range map[string][]string{"CACert": c.Keys.CACert, "Cert": c.Keys.Cert, "Key": c.Keys.Key} {
		if len(names) == 0 {
			return fmt.Errorf("config: Keys.%s has no name", field)
		}
	}
	return nil
}

func (o *Options) complete() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Source.Random == nil {
		o.Source.Random = rand.Reader
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
func (k *Keeper) NeedLeaderElection() bool { return false }

// Initialised is closed when for the first time a certificate is served and every object that exists holds the bundle.
func (k *Keeper) Initialised() <-chan struct{} { return k.initialised }

// Start keeps everything right until the context ends. It returns an error only if it has been called before; what fails
// is tried again. It logs to the context's logger.
func (k *Keeper) Start(ctx context.Context) error {
	if !k.started.CompareAndSwap(false, true) {
		return errors.New("the keeper has been started before")
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	news := newInbox()
	for _, o := range append([]*object{k.secret}, k.objects...) {
		group.Go(func() { k.follow(ctx, o, news) })
	}
	for ctx.Err() == nil {
		k.await(ctx, k.reconcile(ctx), news)
	}
	return nil
}

// tick is how long nothing may happen. It bounds what a jump of the clock can hide.
func (k *Keeper) tick() time.Duration { return min(time.Minute, max(k.config.Overlap/10, time.Second)) }

// await waits until there is news, or until it is time to look again, and takes in all that there is.
func (k *Keeper) await(ctx context.Context, at time.Time, news *inbox) {
	now := k.options.Clock.Now()
	wait := k.tick()
	if !at.IsZero() {
		wait = min(wait, max(at.Sub(now), 0))
	}
	timer := k.options.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C():
	case <-news.filled:
	}
	k.checkClock(ctx, now, wait)
	for _, e := range news.empty() {
		k.take(ctx, e)
	}
}

// checkClock finds out whether the clock went elsewhere than time: by no more than the wait has it moved on, and not back.
func (k *Keeper) checkClock(ctx context.Context, before time.Time, wait time.Duration) {
	now := k.options.Clock.Now()
	moved := now.Sub(before.Round(0)) // by the wall, which is what certificates go by
	slack := k.tick()
	if moved >= -slack && moved <= wait+slack {
		return
	}
	log.FromContext(ctx).Info("The clock has jumped; waiting for it to settle", "moved", moved.String(), "expectedAtMost", wait.String())
	k.seen.ClockJumped = now
	if k.seen.Disturbed.After(now) {
		k.seen.Disturbed = now
	}
	if k.seen.DisturbedSince.After(now) {
		k.seen.DisturbedSince = now
	}
	k.files.clockJumped(now)
	k.secret.clockJumped(now)
	for _, o := range k.objects {
		o.clockJumped(now)
	}
}

// reconcile does all that can be done now, and returns when there may be more to do; zero if only an event can tell.
func (k *Keeper) reconcile(ctx context.Context) time.Time {
	var next time.Time
	if !k.secret.synced {
		return next
	}
	k.adopt(ctx)
	for range 4 { // announce, inject, stamp, and one more
		next = time.Time{}
		wrote := k.keep(ctx, &next)
		wrote = k.injectAll(ctx, &next) || wrote
		if !wrote {
			break
		}
		next = k.options.Clock.Now()
	}
	sooner(&next, k.files.retryAt)
	k.report()
	return next
}

// adopt serves what the Secret holds, and goes on with what it has if that cannot be used.
func (k *Keeper) adopt(ctx context.Context) {
	version := ""
	if k.secret.live != nil {
		version = k.secret.live.GetResourceVersion()
	}
	if k.adopted && version == k.readVersion {
		k.writeFiles(ctx)
		return
	}
	k.adopted, k.readVersion = true, version
	material, err := k.read()
	if err != nil {
		// Without External the decision has the same reason, and puts it right.
		if k.options.External {
			k.say(ctx, k.secret, asReason(err))
		}
		return
	}
	k.settled(k.secret)
	k.material = material
	k.certificate.Store(material)
	k.once.serving.Do(func() { close(k.serving) })
	k.filesDue = k.filesWanted()
	k.writeFiles(ctx)
	if k.options.Observer != nil {
		k.options.Observer.Serving(material)
	}
}

func (k *Keeper) read() (*webhookcert.Material, error) {
	if k.options.External {
		return webhookcert.ReadExternal(&k.config.Keys, k.data())
	}
	return webhookcert.Read(k.config, k.data())
}

func (k *Keeper) data() map[string][]byte {
	if secret, ok := k.secret.live.(*corev1.Secret); ok {
		return secret.Data
	}
	return nil
}

// report tells the readiness check how things are.
func (k *Keeper) report() {
	var faults reason.List
	synced := k.secret.synced
	if k.material == nil {
		faults = append(faults, reason.Reason{Code: NotServing, Object: k.secret.ref, Detail: "there is no certificate yet"})
	}
	for _, o := range k.objects {
		synced = synced && o.synced
		switch {
		case !o.synced:
			faults = append(faults, reason.Reason{Code: NotServing, Object: o.ref, Detail: "it has not been read yet"})
		case o.live != nil && o.differs != nil:
			faults = append(faults, *o.differs)
		}
		k.tellInjected(o)
	}
	k.held = k.held || synced && len(faults) == 0
	k.status.Store(&status{faults: faults, initialised: k.held}) // before anybody is told that it holds
	if k.held {
		k.once.initialised.Do(func() { close(k.initialised) })
	}
}

// tellInjected tells the observer whether an object lacks something, if that is news.
func (k *Keeper) tellInjected(o *object) {
	if !o.synced || k.material == nil || k.options.Observer == nil {
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
	k.options.Observer.Injected(o.ref, lacks)
}

// say tells log and observer something once, until something else is said about the object.
func (k *Keeper) say(ctx context.Context, o *object, why reason.Reason) {
	if o.said.Code == why.Code && o.said.Path == why.Path {
		return
	}
	o.said = why
	log.FromContext(ctx).Info("Waiting", "object", o.ref.String(), "reason", why.String())
	if k.options.Observer != nil {
		k.options.Observer.Waiting(o.ref, why)
	}
}

// wrote notes a write that has succeeded.
func (k *Keeper) wrote(ctx context.Context, o *object, why reason.Reason) {
	o.succeeded()
	log.FromContext(ctx).Info("Wrote", "object", o.ref.String(), "reason", why.String())
	if k.options.Observer != nil {
		k.options.Observer.Wrote(o.ref, why)
	}
}

// fail notes that something has failed, and puts the next attempt off.
func (k *Keeper) fail(ctx context.Context, at *attempts, err error) {
	at.retryAt = k.options.Clock.Now().Add(min(time.Second<<min(at.failures, 6), time.Minute))
	at.failures++
	k.complain(ctx, at, err)
}

// complain tells the observer of each error, and the log of each new one.
func (k *Keeper) complain(ctx context.Context, at *attempts, err error) {
	if ctx.Err() != nil {
		return // the end is no failure
	}
	if text := err.Error(); text != at.failed {
		at.failed = text
		log.FromContext(ctx).Error(err, "Will try again", "object", at.ref.String())
	}
	if k.options.Observer != nil {
		k.options.Observer.Failed(at.ref, err)
	}
}

func asReason(err error) reason.Reason {
	if why := reason.From(err); len(why) > 0 {
		return why[0]
	}
	return reason.Reason{Code: NotServing, Detail: err.Error()}
}
