// Package webhookcert_test tests package webhookcert/rotator under injected faults. Three replicas of a server run
// the rotator.
package webhookcert_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

const (
	overlap = 10 * time.Minute
	// late is the longest delay with which a client of the webhooks reads the CA bundles in API objects. rotatorLate
	// is the longest delay of a rotator. The guarantees hold for every delay shorter than the overlap. nap is the
	// step by which the tests advance the clock.
	late        = overlap * 8 / 10
	rotatorLate = overlap / 2
	nap         = overlap / 8

	burst    = 5
	interval = 10 * time.Second

	serverName = "hooks.default.svc"
)

// TestFaults: while certificates rotate, requests and watches fail and processes stop. A client that trusts the
// present CA bundle of the API objects, or a recent former bundle, can still complete a TLS handshake with every
// replica. In some schedules, a user destroys the Secret and the objects. Then the rotators repair everything in the
// end, with a bounded number of writes.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 5) }

func plan(t *testing.T) chaos.Plan {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Seeds:  200,
		Scheme: scheme, Replicas: 3, New: newStory,
		Quiet: 3 * time.Minute, // longer than a rotator waits after an error
		Kinds: []client.Object{
			&corev1.Secret{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
			&admissionregistrationv1.ValidatingWebhookConfiguration{}, &apiextensionsv1.CustomResourceDefinition{},
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	vandals  bool // a user destroys the Secret and objects
	rotators map[int]*rotator.Rotator
	// bundles contains the bundles that each object has contained, with the time from which each bundle was in the
	// object.
	bundles  map[string][]published
	verified map[string]error
	writes   map[string]int
	began    map[int]time.Time
	caughtUp time.Time
}

type published struct {
	since  time.Time
	bundle []byte
}

func newStory(world *chaos.World) chaos.Subject {
	s := &story{
		World: world, vandals: world.Chance(40), rotators: map[int]*rotator.Rotator{}, bundles: map[string][]published{},
		verified: map[string]error{}, writes: map[string]int{}, began: map[int]time.Time{}, caughtUp: time.Now(),
	}
	s.Logf("vandals: %v", s.vandals)
	return chaos.Subject{Setup: s.start, Begin: s.begin, Users: s.act, Settle: s.settle, Wrote: s.judge, Check: s.check, Converged: s.converged}
}

// start adds a rotator to the manager, as the main function of a replica does.
func (s *story) start(_ context.Context, mgr manager.Manager) error {
	live, ok := mgr.GetAPIReader().(client.WithWatch)
	if !ok {
		return fmt.Errorf("a %T cannot watch", mgr.GetAPIReader())
	}
	certs, err := rotator.New(rotator.Options{
		Client: live, Config: webhookcert.Config{DNSNames: []string{serverName}, Overlap: overlap},
		Secret:   client.ObjectKey{Namespace: "default", Name: "certs"},
		Mutating: []string{"mutate"}, Validating: []string{"validate"}, CRDs: []string{"things.example.com"},
		Burst: burst, Interval: interval,
	})
	if err != nil {
		return err
	}
	newest := 0
	for _, p := range s.Processes() {
		newest = max(newest, p.Start)
	}
	s.rotators[newest], s.began[newest] = certs, time.Now()
	return mgr.Add(certs)
}

func service() *admissionregistrationv1.ServiceReference {
	return &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hooks", Path: ptr.To("/hook")}
}

// object returns one of the objects in the form in which its owner applies the object.
func object(name string) client.Object {
	meta := metav1.ObjectMeta{Name: name}
	clientConfig := admissionregistrationv1.WebhookClientConfig{Service: service()}
	switch name {
	case "mutate":
		return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{
			{Name: "a.example.com", ClientConfig: clientConfig}, {Name: "b.example.com", ClientConfig: clientConfig},
		}}
	case "validate":
		return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "a.example.com", ClientConfig: clientConfig},
		}}
	default:
		ref := &apiextensionsv1.ServiceReference{Namespace: "default", Name: "hooks", Path: ptr.To("/convert")}
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: ref}, ConversionReviewVersions: []string{"v1"},
			},
		}
		return crd
	}
}

func names() []string { return []string{"mutate", "validate", "things.example.com"} }

// bundlesOf returns the bundle of each webhook of an object.
func bundlesOf(obj client.Object) (out [][]byte) {
	switch o := obj.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			out = append(out, o.Webhooks[i].ClientConfig.CABundle)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			out = append(out, o.Webhooks[i].ClientConfig.CABundle)
		}
	case *apiextensionsv1.CustomResourceDefinition:
		out = append(out, o.Spec.Conversion.Webhook.ClientConfig.CABundle)
	}
	return out
}

// setBundle replaces the CA bundles of an object, as a user might do who does not know about the rotator.
func setBundle(obj client.Object, bundle []byte) {
	switch o := obj.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		o.Webhooks[0].ClientConfig.CABundle = bundle
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		o.Webhooks[0].ClientConfig.CABundle = bundle
	case *apiextensionsv1.CustomResourceDefinition:
		o.Spec.Conversion.Webhook.ClientConfig.CABundle = bundle
	}
}

func (s *story) begin() {
	for _, name := range names() {
		s.must(s.User.Create(context.Background(), object(name)))
	}
}

func (s *story) must(err error) {
	if err != nil {
		s.Failf("story", "%v", err)
	}
}

// stored returns an object from the API server, or nil if the object does not exist.
func (s *story) stored(name string) client.Object {
	obj := object(name)
	if s.User.Get(context.Background(), client.ObjectKeyFromObject(obj), obj) != nil {
		return nil
	}
	return obj
}

func (s *story) secret() *corev1.Secret {
	var secret corev1.Secret
	if s.User.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "certs"}, &secret) != nil {
		return nil
	}
	return &secret
}

// act does one random action of a user: requests a rotation, waits, or destroys an object.
func (s *story) act() {
	n := s.Rand().IntN(100)
	switch secret := s.secret(); {
	case n < 20 && secret != nil:
		s.Logf("user: rotate")
		secret.Data["rotate"] = []byte("now")
		s.must(s.User.Update(context.Background(), secret))
	case n < 50:
		s.wait(time.Duration(1+s.Rand().IntN(6)) * nap)
	case s.vandals:
		s.destroy(secret)
	}
}

// wait advances the clock by d, in steps: each rotator gets its events and acts with a delay of at most rotatorLate.
func (s *story) wait(d time.Duration) {
	s.Logf("time passes: %v, without faults", d)
	for ; d > 0; d -= nap {
		if s.Chance(60) {
			s.catchUp()
		}
		s.Sleep(nap)
		s.check()
	}
}

func (s *story) catchUp() {
	for range 3 { // a rotator may need several steps: list, watch, and writes after an event
		s.CatchUp()
	}
	s.caughtUp = time.Now()
}

func (s *story) destroy(secret *corev1.Secret) {
	name := names()[s.Rand().IntN(3)]
	obj := s.stored(name)
	switch n := s.Rand().IntN(6); {
	case n < 2 && obj != nil:
		s.Logf("user: reset the bundle of %s", name)
		setBundle(obj, [][]byte{nil, []byte("garbage")}[n])
		s.must(s.User.Update(context.Background(), obj))
	case n == 2 && obj != nil:
		s.Logf("user: delete %s", name)
		s.must(s.User.Delete(context.Background(), obj))
	case obj == nil:
		s.Logf("user: create %s", name)
		s.must(s.User.Create(context.Background(), object(name)))
	case n == 3 && secret != nil:
		s.Logf("user: delete the Secret")
		s.must(s.User.Delete(context.Background(), secret))
	case n == 4 && secret != nil:
		s.Logf("user: garbage in the Secret")
		secret.Data[[]string{"tls.crt", "tls.key", "ca.crt", "rotation.json"}[s.Rand().IntN(4)]] = []byte("garbage")
		s.must(s.User.Update(context.Background(), secret))
	}
}

// settle creates the objects that the user has deleted.
func (s *story) settle() {
	for _, name := range names() {
		if s.stored(name) == nil {
			s.must(s.User.Create(context.Background(), object(name)))
		}
	}
}

// judge checks that no rotator writes to an object more often than its limit allows.
func (s *story) judge(w *chaos.Write) {
	start := w.Task.Process.Start
	key := fmt.Sprintf("process %d, %s %s", start, w.Call.Resource, w.Call.Name)
	s.writes[key]++
	if most := burst + 1 + int(time.Since(s.began[start])/interval); s.writes[key] > most {
		s.Failf("writes", "%s: %d writes in %v, where %d are allowed", key, s.writes[key], time.Since(s.began[start]), most)
	}
}

// check checks the handshakes. Clients may trust any CA bundle that an object has contained within the time late
// before now. With each such bundle, the TLS handshake with every replica must succeed.
func (s *story) check() {
	now := time.Now()
	for _, name := range names() {
		if obj := s.Server.Stored(object(name), client.ObjectKey{Name: name}); obj != nil {
			s.publish(name, bundlesOf(obj), now)
		}
	}
	if s.vandals {
		return
	}
	for _, p := range s.Processes() {
		certificate, err := s.rotators[p.Start].GetCertificate(nil)
		if err != nil {
			continue // the replica does not serve yet
		}
		for _, name := range slices.Sorted(maps.Keys(s.bundles)) {
			history := s.bundles[name]
			for i, said := range history {
				if i+1 < len(history) && history[i+1].since.Before(now.Add(-late)) {
					continue // no client trusts this bundle any more
				}
				if err := s.verify(certificate.Leaf, said.bundle, now); err != nil {
					s.Failf("handshake", "process %d, and what %s has said since %v ago: %v", p.Start, name, now.Sub(said.since), err)
				}
			}
		}
	}
	if time.Since(s.caughtUp) > rotatorLate-2*nap && !s.Over() {
		s.catchUp()
	}
}

// publish records a new CA bundle of an object. An empty bundle is not recorded, because with an empty bundle no
// client connects.
func (s *story) publish(name string, bundles [][]byte, now time.Time) {
	for i, bundle := range bundles {
		key := fmt.Sprintf("%s/%d", name, i)
		history := s.bundles[key]
		if len(bundle) == 0 || len(history) > 0 && bytes.Equal(history[len(history)-1].bundle, bundle) {
			continue
		}
		s.bundles[key] = append(history, published{now, bundle})
	}
}

func (s *story) verify(leaf *x509.Certificate, bundle []byte, now time.Time) error {
	key := leaf.SerialNumber.String() + string(bundle)
	if err, done := s.verified[key]; done {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: serverName, CurrentTime: now})
	if err != nil {
		err = errors.New("the authority is not among them") // the text of the certificate differs in each run
	}
	s.verified[key] = err
	return err
}

// converged checks that the bundle of every object fits the certificates of every replica.
func (s *story) converged() {
	secret := s.secret()
	if secret == nil {
		s.Failf("converged", "there is no Secret")
	}
	for _, p := range s.Processes() {
		certs := s.rotators[p.Start]
		certificate, err := certs.GetCertificate(nil)
		if err != nil {
			s.Failf("converged", "process %d does not serve: %v", p.Start, err)
		}
		if err := certs.Ready(context.Background()); err != nil {
			s.Failf("converged", "process %d is not ready: %v", p.Start, err)
		}
		for _, name := range names() {
			for i, bundle := range bundlesOf(s.stored(name)) {
				if err := s.verify(certificate.Leaf, bundle, time.Now()); err != nil {
					s.Failf("converged", "webhook %d of %s and process %d: %v", i, name, p.Start, err)
				}
				if !bytes.Equal(bundle, certs.Bundle()) {
					s.Failf("converged", "webhook %d of %s does not hold what process %d publishes", i, name, p.Start)
				}
			}
		}
	}
}
