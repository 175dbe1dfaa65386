package checkup_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/cli/checkup"
	"github.com/workloadkit/workloadkit/reason"
)

func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// certificate returns the certificate of an authority that expires after the given time.
func certificate(t testing.TB, after time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now().Add(-100 * 24 * time.Hour), NotAfter: now().Add(after), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func crd(t testing.TB, name, stored string) unstructured.Unstructured {
	t.Helper()
	u := unstructured.Unstructured{Object: map[string]any{}}
	text := "{metadata: {name: " + name + ".apps.kruise.io}, spec: {versions: [{name: v1alpha1}, {name: v1beta1, storage: true}]}, status: {storedVersions: [" + stored + "]}}"
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func managed(arguments ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2}}
	d.Namespace, d.Name = "kruise-system", "manager"
	d.Spec.Template.Spec.Containers = []corev1.Container{{Args: arguments}}
	return d
}

func TestOf(t *testing.T) {
	year := 365 * 24 * time.Hour
	good := certificate(t, year)
	healthy := func() checkup.Facts {
		return checkup.Facts{
			CRDs: []unstructured.Unstructured{crd(t, "clonesets", "v1beta1")},
			Hooks: []checkup.Hook{
				{Object: reason.Object{Kind: "MutatingWebhookConfiguration", Name: "kruise"}, Path: "webhooks[a]", Bundle: good, Service: "s/w", Refuses: true},
				{Object: reason.Object{Kind: "MutatingWebhookConfiguration", Name: "kruise"}, Path: "webhooks[b]", Bundle: good, Service: "s/w"},
			},
			Ready: map[string]int{"s/w": 2}, IsReadyRead: true, Certificate: good, Manager: managed(),
			Agents: &appsv1.DaemonSet{}, IsAgentsRead: true, Now: now(),
		}
	}
	tests := []struct {
		name   string
		change func(*checkup.Facts)
		want   []reason.Code
	}{
		{"healthy", func(*checkup.Facts) {}, nil},
		{"nothing is installed", func(f *checkup.Facts) { f.CRDs = nil }, []reason.Code{checkup.NotInstalled}},
		{"objects in an old version", func(f *checkup.Facts) { f.CRDs[0] = crd(t, "clonesets", "v1alpha1, v1beta1") }, []reason.Code{checkup.OldStoredVersion}},
		{"no webhooks", func(f *checkup.Facts) { f.Hooks = nil }, []reason.Code{checkup.WebhooksMissing}},
		{"no bundle", func(f *checkup.Facts) { f.Hooks[0].Bundle = nil }, []reason.Code{checkup.BundleMissing}},
		{"a bundle that is no certificate", func(f *checkup.Facts) { f.Hooks[0].Bundle = []byte("x"); f.Certificate = nil }, []reason.Code{checkup.BundleUnreadable}},
		{"a bundle that has expired", func(f *checkup.Facts) { f.Hooks[0].Bundle = certificate(t, -time.Hour); f.Certificate = nil }, []reason.Code{checkup.BundleExpired}},
		{"a bundle that expires soon", func(f *checkup.Facts) { f.Hooks[0].Bundle = certificate(t, 29*24*time.Hour); f.Certificate = nil }, []reason.Code{checkup.BundleExpiresSoon}},
		{"a bundle of another authority", func(f *checkup.Facts) { f.Hooks[1].Bundle = certificate(t, year) }, []reason.Code{checkup.BundleForeign}},
		{"a certificate that has expired", func(f *checkup.Facts) { f.Certificate = certificate(t, -time.Hour) }, []reason.Code{checkup.CertificateExpired, checkup.BundleForeign}},
		{"nobody serves", func(f *checkup.Facts) { f.Ready["s/w"] = 0 }, []reason.Code{checkup.NobodyServes, checkup.NobodyServes}},
		{"Services were not read", func(f *checkup.Facts) { f.Ready, f.IsReadyRead = nil, false }, nil},
		{"no replica is ready", func(f *checkup.Facts) { f.Manager.Status.ReadyReplicas = 0 }, []reason.Code{checkup.ManagerNotReady}},
		{"an unknown gate", func(f *checkup.Facts) { f.Manager = managed("--feature-gates=Nonsense=true") }, []reason.Code{checkup.GateUnknown}},
		{"a gate without its kind", func(f *checkup.Facts) {
			f.Manager = managed("--feature-gates=ResourceDistributionGate=true,AllAlpha=true")
		}, []reason.Code{checkup.GateWithoutCRD}},
		{"a gate that is off", func(f *checkup.Facts) { f.Manager = managed("--feature-gates=ResourceDistributionGate=false") }, nil},
		{"no agents", func(f *checkup.Facts) { f.Agents = nil }, []reason.Code{checkup.AgentsMissing}},
		{"no agents, as wanted", func(f *checkup.Facts) { f.Agents = nil; f.Manager = managed("--feature-gates=KruiseDaemon=false") }, nil},
		{"agents that are not ready", func(f *checkup.Facts) { f.Agents.Status.DesiredNumberScheduled = 1 }, []reason.Code{checkup.AgentsNotReady}},
		{"a right that lacks", func(f *checkup.Facts) { f.LackingRights = []string{"patch pods"} }, []reason.Code{checkup.RightMissing}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := healthy()
			tt.change(&f)
			var got []reason.Code
			for _, why := range checkup.Of(f) {
				if got = append(got, why.Code); why.Remedy == "" {
					t.Errorf("%s has no remedy", why.Code)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEqualFindingsAreOne(t *testing.T) {
	f := checkup.Facts{CRDs: []unstructured.Unstructured{crd(t, "clonesets", "v1beta1")}, Now: now()}
	for _, name := range []string{"a", "b", "c"} {
		f.Hooks = append(f.Hooks, checkup.Hook{Object: reason.Object{Kind: "ValidatingWebhookConfiguration", Name: name}, Path: "webhooks[x]"})
	}
	got := checkup.Of(f)
	if len(got) != 1 || got[0].Detail != "also ValidatingWebhookConfiguration b, ValidatingWebhookConfiguration c" {
		t.Errorf("findings: %v", got)
	}
}

// FuzzBundle: no text in a bundle or a certificate causes a panic.
func FuzzBundle(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte("x"))
	f.Add([]byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, bundle, certificate []byte) {
		facts := checkup.Facts{CRDs: []unstructured.Unstructured{crd(t, "clonesets", "v1beta1")}, Hooks: []checkup.Hook{{Bundle: bundle}}, Certificate: certificate, Now: now()}
		for _, why := range checkup.Of(facts) {
			if why.Code == "" {
				t.Errorf("a finding without a code: %v", why)
			}
		}
	})
}
