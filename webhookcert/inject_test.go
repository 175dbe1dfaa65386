package webhookcert_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

func hook(name, path string, bundle []byte) admissionregistrationv1.MutatingWebhook {
	service := &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "webhooks"}
	if path != "" {
		service.Path = ptr.To(path)
	}
	return admissionregistrationv1.MutatingWebhook{
		Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: service, CABundle: bundle},
	}
}

func byURL(name, url string, bundle []byte) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(url), CABundle: bundle},
	}
}

// operations renders each operation of a patch as a line, with the names of bundles in place of their bytes.
func operations(t *testing.T, patch []byte, bundles map[string][]byte) []string {
	t.Helper()
	if patch == nil {
		return nil
	}
	var ops []struct {
		Op, Path string
		Value    string
	}
	if err := json.Unmarshal(patch, &ops); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, op := range ops {
		for name, bundle := range bundles {
			if raw, _ := json.Marshal(bundle); string(raw) == `"`+op.Value+`"` {
				op.Value = name
			}
		}
		out = append(out, strings.TrimSpace(op.Op+" "+op.Path+" "+op.Value))
	}
	return out
}

func TestInjection(t *testing.T) {
	p := policy(t, nil)
	one, two := settled(t, p, t0)["ca-cert.pem"], settled(t, p, t0)["ca-cert.pem"]
	both := append(append([]byte{}, one...), two...)
	headed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Owner": "me"}, Bytes: parse(t, one).Raw})
	bundles := map[string][]byte{"ONE": one, "BOTH": both}
	outside := webhookcert.ClientConfig{Bundle: one, Host: "localhost", Port: 19443}
	tests := []struct {
		name  string
		hooks []admissionregistrationv1.MutatingWebhook
		want  webhookcert.ClientConfig
		ops   []string
		codes []reason.Code
	}{
		{name: "WC-14: nothing differs", hooks: []admissionregistrationv1.MutatingWebhook{hook("a", "/a", one)}, want: webhookcert.ClientConfig{Bundle: one}},
		{
			name: "objects hold what is published and nothing beside it", want: webhookcert.ClientConfig{Bundle: one},
			hooks: []admissionregistrationv1.MutatingWebhook{
				hook("text", "/a", slices.Concat([]byte("# a comment\n"), one)), hook("blank", "/a", append(slices.Clone(one), '\n')),
				hook("twice", "/a", slices.Concat(one, one)), hook("same", "/a", one), hook("headers", "/a", headed),
			},
			ops: []string{
				"test /metadata/resourceVersion 7",
				"test /webhooks/0/name text", "add /webhooks/0/clientConfig/caBundle ONE",
				"test /webhooks/1/name blank", "add /webhooks/1/clientConfig/caBundle ONE",
				"test /webhooks/2/name twice", "add /webhooks/2/clientConfig/caBundle ONE",
				"test /webhooks/4/name headers", "add /webhooks/4/clientConfig/caBundle ONE",
			},
			codes: []reason.Code{webhookcert.CABundleDiffers, webhookcert.CABundleDiffers, webhookcert.CABundleDiffers, webhookcert.CABundleDiffers},
		},
		{
			name: "WC-21: text is no matter for a check, but clients skip certificates with headers",
			want: webhookcert.ClientConfig{Bundle: one, Superset: true},
			hooks: []admissionregistrationv1.MutatingWebhook{
				hook("text", "/a", slices.Concat([]byte("# a comment\n"), one)), hook("headers", "/a", headed),
			},
			ops:   []string{"test /metadata/resourceVersion 7", "test /webhooks/1/name headers", "add /webhooks/1/clientConfig/caBundle ONE"},
			codes: []reason.Code{webhookcert.CABundleDiffers},
		},
		{
			name: "WC-14: only the entry that differs", want: webhookcert.ClientConfig{Bundle: both},
			hooks: []admissionregistrationv1.MutatingWebhook{hook("a", "/a", both), hook("b", "", one)},
			ops:   []string{"test /metadata/resourceVersion 7", "test /webhooks/1/name b", "add /webhooks/1/clientConfig/caBundle BOTH"},
			codes: []reason.Code{webhookcert.CABundleDiffers},
		},
		{
			name: "WC-21: more than needed is enough for a check", want: webhookcert.ClientConfig{Bundle: one, Superset: true},
			hooks: []admissionregistrationv1.MutatingWebhook{hook("a", "/a", both)},
		},
		{
			name: "more than needed differs otherwise", want: webhookcert.ClientConfig{Bundle: one},
			hooks: []admissionregistrationv1.MutatingWebhook{hook("a", "/a", both)},
			ops:   []string{"test /metadata/resourceVersion 7", "test /webhooks/0/name a", "add /webhooks/0/clientConfig/caBundle ONE"},
			codes: []reason.Code{webhookcert.CABundleDiffers},
		},
		{
			name: "WC-14: a Service becomes a URL", want: outside,
			hooks: []admissionregistrationv1.MutatingWebhook{hook("a", "/a", one), hook("b", "", nil)},
			ops: []string{
				"test /metadata/resourceVersion 7",
				"test /webhooks/0/name a", "remove /webhooks/0/clientConfig/service", "add /webhooks/0/clientConfig/url https://localhost:19443/a",
				"test /webhooks/1/name b", "add /webhooks/1/clientConfig/caBundle ONE", "remove /webhooks/1/clientConfig/service",
				"add /webhooks/1/clientConfig/url https://localhost:19443/",
			},
			codes: []reason.Code{webhookcert.ClientAddressDiffers, webhookcert.CABundleDiffers, webhookcert.ClientAddressDiffers},
		},
		{
			name: "WC-14: a URL of another host keeps its path", want: outside,
			hooks: []admissionregistrationv1.MutatingWebhook{byURL("a", "https://old:1/deep/a", one), byURL("b", "https://localhost:19443/b", one)},
			ops:   []string{"test /metadata/resourceVersion 7", "test /webhooks/0/name a", "add /webhooks/0/clientConfig/url https://localhost:19443/deep/a"},
			codes: []reason.Code{webhookcert.ClientAddressDiffers},
		},
		{name: "a URL stays in Service mode", want: webhookcert.ClientConfig{Bundle: one}, hooks: []admissionregistrationv1.MutatingWebhook{byURL("a", "https://old:1/a", one)}},
		{name: "no entries", want: outside},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			live := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Webhooks: test.hooks}
			same := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: live.ObjectMeta}
			for _, h := range test.hooks {
				same.Webhooks = append(same.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: h.Name, ClientConfig: h.ClientConfig})
			}
			got, err := webhookcert.DiffMutating(live, test.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.ops, operations(t, got.Patch, bundles)); diff != "" {
				t.Errorf("unexpected patch (-want +got):\n%s", diff)
			}
			var codes []reason.Code
			for _, why := range got.Differences {
				codes = append(codes, why.Code)
			}
			if diff := cmp.Diff(test.codes, codes); diff != "" {
				t.Errorf("unexpected reasons (-want +got):\n%s", diff)
			}
			again, err := webhookcert.DiffValidating(same, test.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("the kinds differ (-mutating +validating):\n%s", diff)
			}
		})
	}
}

func TestConversion(t *testing.T) {
	bundle := settled(t, policy(t, nil), t0)["ca-cert.pem"]
	encoded, _ := json.Marshal(bundle)
	text := strings.Trim(string(encoded), `"`)
	service := map[string]any{"namespace": "system", "name": "webhooks", "path": "/convert"}
	const at = "/spec/conversion/webhook/clientConfig"
	tests := []struct {
		name       string
		conversion any
		host       string
		want       []string
		refused    bool
	}{
		{name: "WC-16: strategy None", conversion: map[string]any{"strategy": "None"}, refused: true},
		{name: "WC-16: no conversion", refused: true},
		{name: "WC-16: a webhook without client configuration", conversion: map[string]any{"strategy": "Webhook"}, refused: true},
		{name: "conversion is no object", conversion: "Webhook", refused: true},
		{
			name:       "WC-16: no bundle",
			conversion: map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"service": service}}},
			want:       []string{"test /metadata/resourceVersion 7", "add " + at + "/caBundle BUNDLE"},
		},
		{
			name:       "WC-16: a bundle that is not base64",
			conversion: map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"service": service, "caBundle": "%"}}},
			want:       []string{"test /metadata/resourceVersion 7", "add " + at + "/caBundle BUNDLE"},
		},
		{
			name:       "WC-16: nothing differs",
			conversion: map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"service": service, "caBundle": text}}},
		},
		{
			name: "WC-16: a Service becomes a URL", host: "10.0.0.1",
			conversion: map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"service": service, "caBundle": text}}},
			want:       []string{"test /metadata/resourceVersion 7", "remove " + at + "/service", "add " + at + "/url https://10.0.0.1:19443/convert"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			live := &unstructured.Unstructured{Object: map[string]any{"kind": "CustomResourceDefinition", "spec": map[string]any{}}}
			live.SetName("things.example.com")
			live.SetResourceVersion("7")
			if test.conversion != nil {
				live.Object["spec"] = map[string]any{"conversion": test.conversion}
			}
			got, err := webhookcert.DiffConversion(live, webhookcert.ClientConfig{Bundle: bundle, Host: test.host, Port: 19443})
			if errors.Is(err, webhookcert.NoConversionWebhook) != test.refused {
				t.Fatalf("refused: %v", err)
			}
			if diff := cmp.Diff(test.want, operations(t, got.Patch, map[string][]byte{"BUNDLE": bundle})); diff != "" {
				t.Errorf("unexpected patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoBundleIsInjectedThatHoldsNothing(t *testing.T) {
	live := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{hook("a", "/a", nil)}}
	if got, err := webhookcert.DiffMutating(live, webhookcert.ClientConfig{Bundle: []byte("garbage")}); !errors.Is(err, webhookcert.CertificateMissing) || got.Patch != nil {
		t.Errorf("got %s, %v", got.Patch, err)
	}
}

// TestCheckHost: the API server accepts every host that can be parsed in a URL, so CheckHost must refuse hosts to
// which no connection is possible.
func TestCheckHost(t *testing.T) {
	tests := []struct {
		name    string
		hosts   []string
		refused bool
	}{
		{name: "DNS names", hosts: []string{"localhost", "webhooks.example.com", "1a", "a-b.c", strings.Repeat("a", 63) + ".example.com"}},
		{name: "IP addresses", hosts: []string{"127.0.0.1", "::1", "2001:db8::1"}},
		{name: "nothing", hosts: []string{""}, refused: true},
		{name: "upper case", hosts: []string{"LocalHost"}, refused: true},
		{name: "a port", hosts: []string{"localhost:8443", "127.0.0.1:8443", "[::1]:8443"}, refused: true},
		{name: "brackets and zones", hosts: []string{"[::1]", "fe80::1%eth0"}, refused: true},
		{name: "wildcards", hosts: []string{"*", "*.example.com"}, refused: true},
		{name: "empty labels", hosts: []string{".", "a..b", ".a", "a."}, refused: true},
		{name: "other characters", hosts: []string{"a_b", "a b", "é", "a/b", "u@h", "https://a"}, refused: true},
		{name: "too long", hosts: []string{strings.Repeat("a", 64), strings.Repeat("a.", 126) + "aa"}, refused: true},
		{name: "an IP address that is none", hosts: []string{"10.0.0.256", "10.0.0", "1"}, refused: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, host := range test.hosts {
				err := webhookcert.CheckHost(host)
				if errors.Is(err, webhookcert.BadAddress) != test.refused || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", host)) {
					t.Errorf("%q: %v", host, err)
				}
				live := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{hook("a", "/a", nil)}}
				_, err = webhookcert.DiffMutating(live, webhookcert.ClientConfig{Bundle: settled(t, policy(t, nil), t0)["ca-cert.pem"], Host: host, Port: 443})
				if host != "" && errors.Is(err, webhookcert.BadAddress) != test.refused {
					t.Errorf("injecting %q: %v", host, err)
				}
			}
		})
	}
}
