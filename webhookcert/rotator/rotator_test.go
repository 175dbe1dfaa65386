package rotator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

var (
	t0        = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	secretKey = client.ObjectKey{Namespace: "system", Name: "certs"}
	crdKind   = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

const (
	mutatingName, validatingName = "pods-defaults", "pods-rules"
	crdName                      = "things.example.com"
	overlap                      = 10 * time.Minute
)

func config() webhookcert.Config {
	return webhookcert.Config{
		DNSNames: []string{"webhooks.system.svc"},
		Keys: webhookcert.Keys{
			CACert: []string{"ca-cert.pem"}, CAKey: []string{"ca-key.pem"},
			Cert: []string{"cert.pem", "tls.crt"}, Key: []string{"key.pem", "tls.key"},
			NextCACert: "next-ca-cert.pem", NextCAKey: "next-ca-key.pem", OldCACerts: "old-ca-certs.pem",
			State: "rotation.json", Rotate: "rotate",
		},
	}
}

func mutating() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: mutatingName},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			{Name: "a.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "webhooks", Path: ptr.To("/a")},
			}},
			{Name: "b.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "webhooks"},
			}},
		},
	}
}

func validating() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: validatingName},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "a.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://old:1/a")}},
		},
	}
}

func crd(strategy string) *unstructured.Unstructured {
	conversion := map[string]any{"strategy": strategy}
	if strategy == "Webhook" {
		conversion["webhook"] = map[string]any{"clientConfig": map[string]any{
			"service": map[string]any{"namespace": "system", "name": "webhooks", "path": "/convert"},
		}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": crdName}, "spec": map[string]any{"group": "example.com", "conversion": conversion},
	}}
	u.SetGroupVersionKind(crdKind)
	return u
}

// world has an API server in memory that counts all writes.
type world struct {
	t      *testing.T
	clock  *testclock.FakeClock
	client client.WithWatch

	mu     sync.Mutex
	writes map[string]int
	hook   func(verb string, obj client.Object) error
	onList func(list client.ObjectList) // set before start is called
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(crdKind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(crdKind.GroupVersion().WithKind("CustomResourceDefinitionList"), &unstructured.UnstructuredList{})
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, o := range []client.Object{&corev1.Secret{}, mutating(), validating(), crd("None")} {
		builder = builder.WithIndex(o, "metadata.name", byName)
	}
	w := &world{t: t, clock: testclock.NewFakeClock(t0), writes: map[string]int{}}
	w.client = interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := w.call("get", obj); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if w.onList != nil {
				w.onList(list)
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := w.call("create", obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := w.call("update", obj); err != nil {
				return err
			}
			return c.Update(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := w.call("patch", obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	return w
}

// call counts a write, and calls the test's hook before the request is carried out.
func (w *world) call(verb string, obj client.Object) error {
	w.mu.Lock()
	hook := w.hook
	if verb != "get" {
		w.writes[verb+" "+obj.GetName()]++
	}
	w.mu.Unlock()
	if hook != nil {
		return hook(verb, obj)
	}
	return nil
}

// counted returns the writes since the last call.
func (w *world) counted() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.writes
	w.writes = map[string]int{}
	return out
}

func (w *world) interfere(hook func(verb string, obj client.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = hook
}

// pass advances the clock in steps of at most 10 seconds, so that the rotator does not see a jump.
func (w *world) pass(d time.Duration) {
	for step := 10 * time.Second; d > 0; d -= step {
		synctest.Wait()
		w.clock.Step(min(step, d))
	}
	synctest.Wait()
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(w.t.Context(), secretKey, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// rotate requests a rotation by the entry Keys.Rotate, as an administrator does.
func (w *world) rotate() {
	w.t.Helper()
	secret := w.secret()
	secret.Data["rotate"] = []byte("now")
	w.change(secret)
}

// bundles returns the number of certificates in the CA bundle of each webhook.
func (w *world) bundles() map[string]int {
	w.t.Helper()
	out := map[string]int{}
	count := func(bundle []byte) int { return strings.Count(string(bundle), "BEGIN CERTIFICATE") }
	m := mutating()
	if w.client.Get(w.t.Context(), client.ObjectKeyFromObject(m), m) == nil {
		for _, hook := range m.Webhooks {
			out[hook.Name] = count(hook.ClientConfig.CABundle)
		}
	}
	return out
}

// reset overwrites all CA bundles, as another client would.
func (w *world) reset(bundle []byte) {
	w.t.Helper()
	m := mutating()
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		w.t.Fatal(err)
	}
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig.CABundle = bundle
	}
	w.change(m)
}

// readdress writes a URL into a webhook, as another client would.
func (w *world) readdress(url string) {
	w.t.Helper()
	m := mutating()
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		w.t.Fatal(err)
	}
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig.URL, m.Webhooks[i].ClientConfig.Service = &url, nil
	}
	w.change(m)
}

// change writes an object as another client would; the write is not counted.
func (w *world) change(obj client.Object) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes["update "+obj.GetName()]--
	if w.writes["update "+obj.GetName()] == 0 {
		delete(w.writes, "update "+obj.GetName())
	}
}

// told is an Observer that records all calls of its methods.
type told struct {
	mu     sync.Mutex
	lines  []string
	failed []error
	refs   []string          // the failed objects
	lacks  map[string]string // by object; empty if the object lacks nothing
	waits  []reason.Reason   // the reasons in full
}

func (o *told) Serving(m *webhookcert.Material) { o.add("serving " + m.Stage) }
func (o *told) Wrote(obj reason.Object, why reason.Reason) {
	o.add(fmt.Sprintf("wrote %s: %s", obj.Name, why.Code))
}

func (o *told) Waiting(obj reason.Object, why reason.Reason) {
	o.mu.Lock()
	o.waits = append(o.waits, why)
	o.mu.Unlock()
	o.add(fmt.Sprintf("waiting %s: %s", obj.Name, why.Code))
}

func (o *told) Injected(obj reason.Object, lacks reason.Reason) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lacks == nil {
		o.lacks = map[string]string{}
	}
	o.lacks[obj.String()] = string(lacks.Code)
}

func (o *told) Failed(obj reason.Object, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed, o.refs = append(o.failed, err), append(o.refs, obj.String())
}

func (o *told) add(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, line)
}

func (o *told) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines = nil
	return lines
}

func (w *world) options(edit func(*rotator.Options)) rotator.Options {
	options := rotator.Options{
		Client: w.client, Config: config(), Secret: secretKey, Clock: w.clock,
		Mutating: []string{mutatingName}, Validating: []string{validatingName}, CRDs: []string{crdName},
	}
	if edit != nil {
		edit(&options)
	}
	return options
}

// start runs a rotator until the test ends. Call start in a synctest bubble.
func (w *world) start(edit func(*rotator.Options)) (*rotator.Rotator, *told) {
	w.t.Helper()
	observer := &told{}
	r, err := rotator.New(w.options(func(o *rotator.Options) {
		o.Observer = observer
		if edit != nil {
			edit(o)
		}
	}))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	return r, observer
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected %s (-want +got):\n%s", what, diff)
	}
}

// TestNewsDuringSlowRequest: the rotator loses no event that arrives during a slow request, even if the request times
// out.
func TestNewsDuringSlowRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating(), validating(), crd("Webhook"))
		w.onList = func(list client.ObjectList) {
			if _, ok := list.(*corev1.SecretList); !ok {
				time.Sleep(time.Second) // the Secret is created during the sleep
			}
		}
		w.interfere(func(verb string, _ client.Object) error {
			if verb == "create" {
				time.Sleep(time.Minute)
			}
			return nil
		})
		w.start(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
	})
}

func TestFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating(), validating(), crd("Webhook"))
		r, observer := w.start(nil)
		synctest.Wait()
		same(t, "writes", map[string]int{
			"create certs": 1, "patch " + mutatingName: 1, "patch " + validatingName: 1, "patch " + crdName: 1,
		}, w.counted())
		same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
		same(t, "initialised", true, closed(r.Initialised()))
		if err := r.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		definition := crd("None")
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
			t.Fatal(err)
		}
		text, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
		same(t, "conversion has a bundle", true, len(text) > 100)
		observer.take()

		w.pass(time.Hour)
		same(t, "writes in an hour", map[string]int{}, w.counted())
		same(t, "said in an hour", []string(nil), observer.take())
	})
}

// TestRotation is a whole rotation: announce, stamp, inject, switch, stamp, drop, inject.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		r, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
		synctest.Wait()
		observer.take()
		w.counted()
		leaf := func() string {
			certificate, err := r.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return string(certificate.Leaf.Raw)
		}
		before := leaf()
		w.rotate()
		synctest.Wait()
		same(t, "bundles when announced", map[string]int{"a.example.com": 2, "b.example.com": 2}, w.bundles())
		w.pass(overlap - 10*time.Second)
		same(t, "leaf before the overlap is over", true, leaf() == before)
		w.pass(20 * time.Second)
		same(t, "leaf after it", false, leaf() == before)
		same(t, "bundles when switched", map[string]int{"a.example.com": 2, "b.example.com": 2}, w.bundles())
		w.pass(overlap + 10*time.Second)
		same(t, "bundles in the end", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
		same(t, "said", []string{
			"serving Stable", // after the user's request
			"wrote certs: RotationRequested", "serving Announced",
			"wrote pods-defaults: CABundleDiffers", "wrote certs: RotationStepPublished", "serving Announced", "waiting certs: AwaitingOverlap",
			"wrote certs: OverlapOver", "serving Switched", "wrote certs: RotationStepPublished", "serving Switched", "waiting certs: AwaitingOverlap",
			"wrote certs: OverlapOver", "serving Stable", "wrote pods-defaults: CABundleDiffers",
		}, observer.take())
		same(t, "writes", map[string]int{"update certs": 5, "patch " + mutatingName: 2}, w.counted())
	})
}

func TestTwoReplicasStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		// Both replicas list the Secrets and find none before either replica creates the Secret.
		var group sync.WaitGroup
		group.Add(2)
		var once [2]sync.Once
		turn := 0
		w.interfere(func(verb string, obj client.Object) error {
			if verb != "create" {
				return nil
			}
			w.mu.Lock()
			mine := turn
			turn++
			w.mu.Unlock()
			if mine < 2 {
				once[mine].Do(group.Done)
				group.Wait()
			}
			return nil
		})
		only := func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil }
		first, told1 := w.start(only)
		second, told2 := w.start(only)
		synctest.Wait()
		same(t, "failures", 0, len(told1.failed)+len(told2.failed))
		same(t, "initialised", []bool{true, true}, []bool{closed(first.Initialised()), closed(second.Initialised())})
		same(t, "authorities are one", string(first.Bundle()), string(second.Bundle()))
		same(t, "creates", 2, w.counted()["create certs"])
		w.pass(time.Minute)
		same(t, "writes after it", map[string]int{}, w.counted())
	})
}

func TestResetIsRepairedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating(), validating(), crd("Webhook"))
		w.start(nil)
		synctest.Wait()
		w.counted()
		w.reset(nil)
		synctest.Wait() // without any passing of time
		same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
		same(t, "writes", map[string]int{"patch " + mutatingName: 1}, w.counted())
	})
}

func TestOverwrittenInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		r, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
		w.pass(time.Minute)
		w.counted()
		observer.take()
		faulty := 0
		for range 100 { // 100 seconds, each with an overwrite
			w.reset([]byte("mine"))
			w.pass(time.Second)
			if errors.Is(r.Faults(), webhookcert.CABundleDiffers) {
				faulty++
			}
		}
		patches := w.counted()["patch "+mutatingName]
		if patches > 5+10 || patches < 10 {
			t.Errorf("%d repairs in 100 s, want a burst of 5 and one each 10 s", patches)
		}
		throttled := 0
		for _, line := range observer.take() {
			if line == "waiting pods-defaults: RepairThrottled" {
				throttled++
			}
		}
		same(t, "times it was said", 1, throttled)
		if faulty < 80 {
			t.Errorf("faults were told in %d of 100 s", faulty)
		}
		w.pass(20 * time.Second) // the other client no longer overwrites the object
		same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
		if err := r.Faults(); err != nil {
			t.Errorf("faults: %v", err)
		}
	})
}

// TestAddressOverwrittenInALoop: two replicas with different addresses overwrite each other's writes. The reason
// names both addresses and the remedy.
func TestAddressOverwrittenInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		_, observer := w.start(func(o *rotator.Options) {
			o.Validating, o.CRDs, o.Host, o.Port, o.Config.DNSNames = nil, nil, "localhost", 19443, []string{"localhost"}
		})
		w.pass(time.Minute)
		observer.take()
		for range 20 {
			w.readdress("https://other.example.com:9443/mutate")
			w.pass(time.Second)
		}
		for _, why := range observer.waits {
			if why.Code == rotator.RepairThrottled && why.Old == "https://other.example.com:9443/mutate" && strings.Contains(why.Remedy, "all replicas") {
				return
			}
		}
		t.Errorf("it was said: %v", observer.waits)
	})
}

// TestReadyOutlivesResets: a server that has been ready stays ready while it serves, so that a client that overwrites
// a single object again and again cannot take all replicas out of service. The observer learns what the object lacks.
func TestReadyOutlivesResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating(), crd("None"))
		r, observer := w.start(func(o *rotator.Options) { o.Validating, o.Burst = []string{"missing"}, 1 })
		synctest.Wait()
		lacks := func(what string) map[string]string {
			return map[string]string{
				"MutatingWebhookConfiguration " + mutatingName: what, "ValidatingWebhookConfiguration missing": "",
				"CustomResourceDefinition " + crdName: "NoConversionWebhook",
			}
		}
		same(t, "lacking", lacks(""), observer.lacks)
		for range 25 {
			w.reset([]byte("mine"))
			synctest.Wait()
			if err := r.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Second)
		}
		same(t, "lacking", lacks("CABundleDiffers"), observer.lacks)
		w.pass(time.Minute)
		same(t, "lacking in the end", lacks(""), observer.lacks)
	})
}

func TestSecretOverwrittenInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, observer := w.start(func(o *rotator.Options) { o.Mutating, o.Validating, o.CRDs, o.SecretAlone = nil, nil, nil, true })
		w.pass(time.Minute)
		w.counted()
		observer.take()
		for range 100 {
			secret := w.secret()
			secret.Data["cert.pem"] = []byte("garbage")
			w.change(secret)
			w.pass(time.Second)
		}
		if updates := w.counted()["update certs"]; updates > 5+10 || updates < 10 {
			t.Errorf("%d repairs in 100 s, want a burst of 5 and one each 10 s", updates)
		}
		throttled := 0
		for _, line := range observer.take() {
			if line == "waiting certs: RepairThrottled" {
				throttled++
			}
		}
		same(t, "times it was said", 1, throttled)
		if _, err := r.GetCertificate(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestConfigurationIsDeletedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		r, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
		synctest.Wait()
		observer.take()
		if err := w.client.Delete(t.Context(), mutating()); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
		same(t, "said", []string{"waiting pods-defaults: ObjectMissing"}, observer.take())
		if err := r.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if err := w.client.Create(t.Context(), mutating()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
	})
}

func TestNothingInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, crd("None"))
		r, observer := w.start(nil)
		w.pass(10 * time.Minute)
		said := observer.take()
		slices.Sort(said)
		same(t, "said", []string{
			"serving Stable", "waiting pods-defaults: ObjectMissing", "waiting pods-rules: ObjectMissing",
			"waiting things.example.com: NoConversionWebhook", "wrote certs: CertificateMissing",
		}, said)
		same(t, "initialised", true, closed(r.Initialised()))
		same(t, "writes", map[string]int{"create certs": 1}, w.counted())
	})
}

// TestFaults: requests fail or conflict. In the end, the Secret and all objects have the wanted content, and the
// number of requests is bounded.
func TestFaults(t *testing.T) {
	refused := errors.New("connection refused")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "certs", errors.New("changed"))
	tests := []struct {
		name  string
		verb  string
		err   error
		times int
	}{
		{name: "WC-6: creating is refused", verb: "create", err: refused, times: 3},
		{name: "WC-6: the Secret appears in between", verb: "create", err: apierrors.NewAlreadyExists(schema.GroupResource{}, "certs"), times: 2},
		{name: "WC-6: an update conflicts", verb: "update", err: conflict, times: 2},
		{name: "reading before a patch fails", verb: "get", err: refused, times: 2},
		{name: "patching is refused", verb: "patch", err: refused, times: 4},
		{name: "a patch is late", verb: "patch", err: apierrors.NewInvalid(schema.GroupKind{}, mutatingName, nil), times: 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mutating(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}})
				if test.verb == "create" {
					if err := w.client.Delete(t.Context(), w.secret()); err != nil {
						t.Fatal(err)
					}
				}
				left := test.times
				w.interfere(func(verb string, _ client.Object) error {
					w.mu.Lock()
					defer w.mu.Unlock()
					if verb == test.verb && left > 0 {
						left--
						return test.err
					}
					return nil
				})
				r, _ := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
				w.pass(2 * time.Minute)
				same(t, "faults left", 0, left)
				same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
				same(t, "initialised", true, closed(r.Initialised()))
				for what, n := range w.counted() {
					if n > test.times+2 {
						t.Errorf("%d times %s", n, what)
					}
				}
			})
		})
	}
}

// TestOwnerChangesTheListUnderAPatch: between the rotator's read and its patch, another client removes the first
// webhook from the object. The patch must not change the webhook that is first now, and a correct patch must follow
// at once.
func TestOwnerChangesTheListUnderAPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		var once sync.Once
		w.interfere(func(verb string, _ client.Object) error {
			if verb == "patch" {
				once.Do(func() {
					m := mutating()
					if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
						t.Error(err)
					}
					m.Webhooks = m.Webhooks[1:]
					if err := w.client.Update(t.Context(), m); err != nil {
						t.Error(err)
					}
				})
			}
			return nil
		})
		_, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
		synctest.Wait()
		same(t, "bundles", map[string]int{"b.example.com": 1}, w.bundles())
		same(t, "patches", 2, w.counted()["patch "+mutatingName])
		same(t, "failures", 0, len(observer.failed))
	})
}

// TestOldViewTakesNothingAway: a replica with a stale view of the Secret reads the Secret from the API server before
// the patch, and so does not remove a new authority from a bundle.
func TestOldViewTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		only := func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil }
		w.start(only)
		synctest.Wait()
		old := w.secret()

		// The second rotator's list of Secrets always returns the present state.
		late := interceptor.NewClient(w.client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if secrets, ok := list.(*corev1.SecretList); ok {
					secrets.Items = []corev1.Secret{*old}
					return nil
				}
				return c.List(ctx, list, opts...)
			},
		})
		w.rotate()
		synctest.Wait()
		same(t, "bundles when announced", map[string]int{"a.example.com": 2, "b.example.com": 2}, w.bundles())
		w.start(func(o *rotator.Options) { only(o); o.Client = late })
		w.counted()
		w.reset([]byte("mine"))
		w.pass(time.Minute)
		same(t, "bundles", map[string]int{"a.example.com": 2, "b.example.com": 2}, w.bundles())
		if n := w.counted()["patch "+mutatingName]; n > 3 {
			t.Errorf("%d patches", n)
		}
	})
}

func TestURLMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating(), validating(), crd("Webhook"))
		w.start(func(o *rotator.Options) {
			o.Host, o.Port, o.Config.DNSNames = "localhost", 19443, []string{"localhost"}
		})
		synctest.Wait()
		m, v, d := mutating(), validating(), crd("None")
		for _, o := range []client.Object{m, v, d} {
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
		}
		converted, _, _ := unstructured.NestedString(d.Object, "spec", "conversion", "webhook", "clientConfig", "url")
		same(t, "addresses", []string{
			"https://localhost:19443/a", "https://localhost:19443/", "https://localhost:19443/a", "https://localhost:19443/convert",
		}, []string{
			ptr.Deref(m.Webhooks[0].ClientConfig.URL, ""), ptr.Deref(m.Webhooks[1].ClientConfig.URL, ""),
			ptr.Deref(v.Webhooks[0].ClientConfig.URL, ""), converted,
		})
		same(t, "service is gone", true, m.Webhooks[0].ClientConfig.Service == nil)
	})
}

// TestExternal: the rotator writes nothing, and is ready when the other writer has written the CA bundle into all
// objects.
func TestExternal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		r, observer := w.start(func(o *rotator.Options) {
			o.Config.External, o.Validating, o.CRDs = true, nil, nil
			o.Config.Keys = webhookcert.Keys{CACert: []string{"ca.crt"}, Cert: []string{"tls.crt"}, Key: []string{"tls.key"}}
		})
		synctest.Wait()
		same(t, "ready without a Secret", true, errors.Is(r.Ready(t.Context()), rotator.NotServing))

		made := newWorld(t)
		maker, _ := made.start(func(o *rotator.Options) { o.Mutating, o.Validating, o.CRDs, o.SecretAlone = nil, nil, nil, true })
		synctest.Wait()
		from := made.secret().Data
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name},
			Data:       map[string][]byte{"ca.crt": from["ca-cert.pem"], "tls.crt": from["cert.pem"], "tls.key": from["key.pem"]},
		}
		if err := w.client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		same(t, "ready without injection", true, errors.Is(r.Ready(t.Context()), webhookcert.CABundleDiffers))
		same(t, "initialised", false, closed(r.Initialised()))
		w.reset(append([]byte("# more than needed\n"), maker.Bundle()...))
		synctest.Wait()
		same(t, "initialised", true, closed(r.Initialised()))
		if err := r.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "writes", map[string]int{"create certs": 1}, w.counted()) // the test's own write
		same(t, "said", []string{
			"waiting certs: CertificateMissing", "serving Stable", "waiting pods-defaults: CABundleDiffers",
		}, observer.take())
	})
}

// TestClockJumps: if the clock jumps ahead during an overlap, the overlap does not become shorter.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		_, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
		synctest.Wait()
		w.rotate()
		synctest.Wait()
		stage := func() string {
			policy, err := config().Complete()
			if err != nil {
				t.Fatal(err)
			}
			m, err := policy.Read(w.secret().Data)
			if err != nil {
				t.Fatal(err)
			}
			return m.Stage
		}
		w.pass(time.Minute)
		w.clock.Step(48 * time.Hour)
		w.pass(overlap - time.Minute)
		same(t, "stage after the jump", "Announced", stage())
		w.pass(2 * time.Minute)
		same(t, "stage an overlap later", "Switched", stage())

		w.pass(time.Minute)
		observer.take()
		w.counted()
		w.clock.SetTime(w.clock.Now().AddDate(30, 0, 0)) // at this time, all certificates would have expired
		w.pass(10 * time.Second)
		same(t, "writes at once", map[string]int{}, w.counted())
		w.clock.SetTime(t0.Add(72 * time.Hour))
		w.reset(mutating().Webhooks[0].ClientConfig.CABundle) // a fake clock's timers do not fire after the clock went back, so an event is needed
		w.pass(overlap + 2*time.Minute)
		same(t, "stage in the end", "Stable", stage())
	})
}

// serveOne accepts a single connection; the returned channel is closed when the listener has ended.
func serveOne(t *testing.T, address string, certificate func(*tls.Config)) <-chan struct{} {
	t.Helper()
	config := &tls.Config{}
	certificate(config)
	listener, err := tls.Listen("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = listener.Close() }()
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // makes the handshake, and returns when the client closes the connection
			_ = conn.Close()
		}
	}()
	return done
}

func TestReadyMakesAHandshake(t *testing.T) {
	stranger, _ := newWorld(t).start(func(o *rotator.Options) { o.Mutating, o.Validating, o.CRDs, o.SecretAlone = nil, nil, nil, true })
	<-stranger.Initialised()
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	_ = reserved.Close()
	r, _ := newWorld(t).start(func(o *rotator.Options) {
		o.Mutating, o.Validating, o.CRDs, o.SecretAlone, o.Address = nil, nil, nil, true, address
	})
	<-r.Initialised()
	same(t, "WC-41: ready without a server", true, errors.Is(r.Ready(t.Context()), rotator.NotServing))
	for name, test := range map[string]struct {
		certificate func(*tls.Config)
		ready       bool
	}{
		"WC-41: a stranger's server": {certificate: stranger.TLS},
		"WC-41: its own server":      {certificate: r.TLS, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			done := serveOne(t, address, test.certificate)
			err := r.Ready(t.Context())
			<-done
			same(t, "ready", test.ready, err == nil)
			if err != nil && !errors.Is(err, rotator.NotServing) {
				t.Error(err)
			}
		})
	}
}

// TestNamespaceMissing: an API server answers the creation of an object in a missing namespace with NotFound.
func TestNamespaceMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		w.interfere(func(verb string, _ client.Object) error {
			if verb == "create" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, secretKey.Namespace)
			}
			return nil
		})
		r, observer := w.start(func(o *rotator.Options) {
			o.Validating, o.CRDs = nil, nil
			o.Burst = 1 // fewer writes than the rotator attempts at its start
		})
		w.pass(10 * time.Minute)
		same(t, "failed", []string{"Secret system/certs"}, slices.Compact(observer.refs))
		for _, err := range observer.failed {
			if !errors.Is(err, rotator.NamespaceMissing) || !strings.Contains(err.Error(), `namespace "system" does not exist`) {
				t.Fatalf("failed with %v", err)
			}
		}
		same(t, "said", []string(nil), observer.take())
		if n := w.counted()["create certs"]; n < 10 || n > 18 {
			t.Errorf("%d attempts in 10 minutes, want one a minute and a few more in the beginning", n)
		}
		if err := r.Ready(t.Context()); !errors.Is(err, rotator.NotServing) {
			t.Errorf("ready: %v", err)
		}

		w.interfere(nil) // the namespace is created
		w.pass(time.Minute)
		same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
	})
}

// stale is a client whose lists and watches of mutating configurations show an old state that never changes, as if a
// connection had broken without an error. Get and writes work.
type stale struct {
	client.WithWatch

	mu     sync.Mutex
	frozen []admissionregistrationv1.MutatingWebhookConfiguration
	gets   int
}

func (s *stale) freeze(t *testing.T) {
	t.Helper()
	var now admissionregistrationv1.MutatingWebhookConfigurationList
	if err := s.WithWatch.List(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen, s.gets = now.Items, 0
}

func (s *stale) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := list.(*admissionregistrationv1.MutatingWebhookConfigurationList); ok && s.frozen != nil {
		l.Items = s.frozen
		return nil
	}
	return s.WithWatch.List(ctx, list, opts...)
}

func (s *stale) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := list.(*admissionregistrationv1.MutatingWebhookConfigurationList); ok {
		return watch.NewFake(), nil
	}
	return s.WithWatch.Watch(ctx, list, opts...)
}

func (s *stale) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	s.mu.Lock()
	if _, ok := obj.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
		s.gets++
	}
	s.mu.Unlock()
	return s.WithWatch.Get(ctx, key, obj, opts...)
}

func firstOf(lines []string) string { return append(lines, "nothing")[0] }

// TestSilentlyDeadWatch: before the switch of the leaf, and before the removal of the old authority, the rotator
// reads the objects from the API server, because a watch may have broken without an error.
func TestSilentlyDeadWatch(t *testing.T) {
	for _, stage := range []string{"Announced", "Switched"} {
		t.Run(stage, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mutating())
				late := &stale{WithWatch: w.client}
				r, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs, o.Client = nil, nil, late })
				synctest.Wait()
				before := r.Bundle()
				secret := w.secret()
				secret.Data["rotate"] = []byte("now")
				w.change(secret)
				w.pass(10 * time.Second)
				if stage == "Switched" {
					w.pass(overlap)
				}
				observer.take()
				bundles := map[string]int{"a.example.com": 2, "b.example.com": 2}
				same(t, "bundles", bundles, w.bundles())

				late.freeze(t)
				w.reset(before)
				w.pass(overlap - time.Minute)
				same(t, "reads before the overlap is over", 0, late.gets)
				w.pass(2 * time.Minute)
				same(t, "said when the overlap is over", []string{
					"waiting certs: AwaitingInjection", "wrote pods-defaults: CABundleDiffers", "waiting certs: AwaitingOverlap",
				}, observer.take())
				same(t, "bundles when the overlap is over", bundles, w.bundles())
				w.pass(overlap)
				same(t, "the first write after another overlap", "wrote certs: OverlapOver", firstOf(observer.take()))
				if late.gets > 6 {
					t.Errorf("%d reads in two overlaps", late.gets)
				}
			})
		})
	}
}

// TestStepWaitsForUnreadableObject: a rotation stage waits while an object cannot be read, because the object may not
// hold the bundle.
func TestStepWaitsForUnreadableObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		_, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
		synctest.Wait()
		w.rotate()
		w.pass(time.Minute)
		observer.take()
		refused := errors.New("connection refused")
		w.interfere(func(verb string, obj client.Object) error {
			if verb == "get" && obj.GetName() == "" {
				if _, ok := obj.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
					return refused
				}
			}
			return nil
		})
		w.pass(overlap + 5*time.Minute)
		same(t, "said", []string(nil), observer.take())
		same(t, "failed", []string{"MutatingWebhookConfiguration " + mutatingName}, slices.Compact(observer.refs))
		if n := len(observer.failed); n < 5 || n > 15 {
			t.Errorf("%d attempts in 6 minutes, want one a minute and a few more in the beginning", n)
		}
		w.interfere(nil)
		w.pass(time.Minute)
		same(t, "said when it can be read", "wrote certs: OverlapOver", firstOf(observer.take()))
	})
}

// TestRotationHeldUp: somebody resets a bundle again and again, at intervals shorter than the overlap. The rotation
// waits, because API servers may use the overwritten bundle. The rotator reports the object once. When the resets
// end, the rotation continues by itself.
func TestRotationHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		r, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil })
		synctest.Wait()
		before := r.Bundle()
		leaf := w.secret().Data["tls.crt"]
		w.rotate()
		w.pass(time.Minute)
		for range 24 {
			w.reset(before)
			w.pass(overlap / 2)
		}
		same(t, "leaf after two hours", string(leaf), string(w.secret().Data["tls.crt"]))
		var held []reason.Reason
		for _, why := range observer.waits {
			if why.Code == webhookcert.RotationHeldUp {
				held = append(held, why)
			}
		}
		same(t, "times it was said", 1, len(held))
		if len(held) > 0 {
			same(t, "by whom it is held up", reason.Object{Kind: "MutatingWebhookConfiguration", Name: mutatingName}, held[0].Object)
			if !strings.Contains(held[0].Detail, "since 2026-07-01T12:00:00Z") || !strings.Contains(held[0].Remedy, "managedFields") {
				t.Errorf("it says %v", held[0])
			}
		}
		observer.take()
		w.pass(2*overlap + time.Minute)
		policy, err := config().Complete()
		if err != nil {
			t.Fatal(err)
		}
		m, err := policy.Read(w.secret().Data)
		if err != nil || m.Stage != "Stable" {
			t.Errorf("two overlaps after the last reset the rotation is at %+v, %v", m, err)
		}
	})
}
