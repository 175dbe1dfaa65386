package manager_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// otherSecret returns a Secret as OpenKruise writes the Secret: RSA keys in PKCS#1, a CA, and each value under two
// keys.
func otherSecret(t *testing.T, host string) *corev1.Secret {
	t.Helper()
	begin, end := time.Now().Add(-time.Hour), time.Now().AddDate(10, 0, 0)
	newKey := func() *rsa.PrivateKey {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	sign := func(template, parent *x509.Certificate, key, signer *rsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	private := func(key *rsa.PrivateKey) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	}
	caKey, key := newKey(), newKey()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(0), Subject: pkix.Name{CommonName: "webhook-cert-ca"}, NotBefore: begin, NotAfter: end,
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(77), Subject: pkix.Name{CommonName: host}, NotBefore: begin, NotAfter: end, DNSNames: []string{"localhost", host},
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert := sign(leaf, ca, key, caKey)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-webhook-certs"},
		Data: map[string][]byte{
			"ca-key.pem": private(caKey), "ca-cert.pem": sign(ca, ca, caKey, caKey),
			"key.pem": private(key), "cert.pem": cert, "tls.key": private(key), "tls.crt": cert,
		},
	}
}

// otherConfiguration returns a mutating configuration of OpenKruise's manager: the annotation contains the original
// list of webhooks.
func otherConfiguration() *admissionregistrationv1.MutatingWebhookConfiguration {
	entry := func(name, path, group, resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{
			Name: name, AdmissionReviewVersions: []string{"v1", "v1beta1"},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "kruise-system", Name: "kruise-webhook-service", Path: &path},
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: operations,
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
			}},
		}
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: mutating, Annotations: map[string]string{"template": `[{"name":"mpod.kb.io"},{"name":"mcloneset.kb.io"}]`}},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			entry("mpod.kb.io", "/mutate-pod", "", "pods", admissionregistrationv1.Create),
			entry("mcloneset.kb.io", "/mutate-apps-kruise-io-cloneset", "apps.kruise.io", "clonesets", admissionregistrationv1.Create, admissionregistrationv1.Update),
		},
	}
}

// storedInV1alpha1 stores a CloneSet in the version v1alpha1, as old clusters do, and then installs the present CRD.
func (c *cluster) storedInV1alpha1(name string) {
	c.t.Helper()
	if err := config.InstallCRDs(c.t.Context(), c); err != nil {
		c.t.Fatal(err)
	}
	today := c.crd()
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(today), today); err != nil {
		c.t.Fatal(err)
	}
	store := func(version string, conversion map[string]any) {
		crd := c.crd()
		controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return err
			}
			versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
			for _, v := range versions {
				v := v.(map[string]any)
				v["storage"] = v["name"] == version
			}
			return errors.Join(
				unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"),
				unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"),
				c.Update(ctx, crd))
		})
	}
	store("v1alpha1", map[string]any{"strategy": "None"})
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		// The API server takes a moment to switch the stored version.
		object := inV1alpha1(name, 2)
		if err := c.Create(ctx, object); err != nil {
			return err
		}
		crd := c.crd()
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		if len(stored) < 2 {
			return errors.Join(fmt.Errorf("stored versions %v", stored), c.Delete(ctx, object))
		}
		return nil
	})
	conversion, _, _ := unstructured.NestedMap(today.Object, "spec", "conversion")
	store("v1beta1", conversion)
}

// hold renews the Lease as a running manager does, until stop is called.
func (c *cluster) hold(identity string) (stop func()) {
	c.t.Helper()
	now := func() *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(time.Now())) }
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: ptr.To[int32](3), RenewTime: now(), AcquireTime: now()},
	}
	if err := c.Create(c.t.Context(), lease); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			lease.Spec.RenewTime = now()
			if err := c.Update(ctx, lease); err != nil && ctx.Err() == nil {
				c.t.Errorf("the other manager cannot renew its Lease: %v", err)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	c.t.Cleanup(stop)
	return stop
}

// TestFromOpenKruiseAndBack starts a manager on a cluster whose OpenKruise manager still runs. In the end, the test
// checks that OpenKruise's manager could be started again with the objects of the cluster.
func TestFromOpenKruiseAndBack(t *testing.T) {
	c := newCluster(t)
	secret, configuration := otherSecret(t, "localhost"), otherConfiguration()
	c.storedInV1alpha1("old")
	for _, obj := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kruise-system"}}, secret, configuration} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	stop := c.hold("kruise-controller-manager-5d9_1f0c")
	m := c.run("--leader-election-lease-duration=4s", "--leader-election-renew-deadline=3s", "--leader-election-retry-period=1s")
	m.untilLogged("another manager holds the Lease")
	c.untilRenewed(6)
	if written := c.written(t); len(written) > 0 {
		t.Errorf("while the other manager runs: %v", written)
	}
	stop()
	m.untilReady()
	c.untilMutatingInjected()

	// Both versions of the old object are served, its controller works, and Pods are admitted.
	c.untilRolledOutPartly("old", 2)
	m.end(syscall.SIGTERM)
	c.leftBehind(t, secret, configuration)
}

// untilRenewed waits until OpenKruise's manager has renewed its Lease some more times.
func (c *cluster) untilRenewed(times int) {
	c.t.Helper()
	seen := map[string]bool{}
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: "kruise-manager"}, lease); err != nil {
			return err
		}
		if seen[lease.ResourceVersion] = true; len(seen) < times {
			return fmt.Errorf("renewed %d times", len(seen))
		}
		return nil
	})
}

// written returns the writes of this project's managers so far.
func (c *cluster) written(t *testing.T) (writes []string) {
	t.Helper()
	requests, _, err := audit.Read(c.cp.AuditLog(), 0, "kruise-manager/")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.IsWrite() {
			writes = append(writes, r.String()+" "+r.Name)
		}
	}
	return writes
}

// untilMutatingInjected waits until the CA bundle is in the objects of the test, which has no validating
// configuration.
func (c *cluster) untilMutatingInjected() {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		var m admissionregistrationv1.MutatingWebhookConfiguration
		if err := c.Get(ctx, client.ObjectKey{Name: mutating}, &m); err != nil {
			return err
		}
		for _, w := range m.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				return fmt.Errorf("%s has no bundle", w.Name)
			}
		}
		return nil
	})
}

func (c *cluster) untilRolledOutPartly(name string, replicas int64) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		object := inV1alpha1(name, replicas)
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if ready, _, _ := unstructured.NestedInt64(object.Object, "status", "availableReplicas"); ready != replicas {
			return fmt.Errorf("%d of %d Pods are available", ready, replicas)
		}
		return nil
	})
}

// leftBehind checks that all objects that OpenKruise needs are unchanged.
func (c *cluster) leftBehind(t *testing.T, secret *corev1.Secret, configuration *admissionregistrationv1.MutatingWebhookConfiguration) {
	t.Helper()
	now, err := c.secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, was := range secret.Data {
		if string(now[key]) != string(was) {
			t.Errorf("%s of the Secret has changed", key)
		}
	}
	pair, err := tls.X509KeyPair(now["cert.pem"], now["key.pem"])
	if err != nil {
		t.Fatalf("certificate and key: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(now["ca-cert.pem"])
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: time.Now().AddDate(0, 0, 180)}); err != nil {
		t.Errorf("OpenKruise would replace the certificate (WC-7): %v", err)
	}
	after := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: mutating}, after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(configuration.Annotations, after.Annotations); diff != "" {
		t.Errorf("annotations (-before +after):\n%s", diff)
	}
	for i := range after.Webhooks {
		if got, want := after.Webhooks[i].Name, configuration.Webhooks[i].Name; got != want {
			t.Errorf("webhook %d is %s, was %s", i, got, want)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: "kruise-manager"}, lease); err != nil {
		t.Fatal(err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the Lease is still held by %s", holder)
	}
}
